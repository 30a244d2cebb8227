"""Shared by the commands for a server: the options that name it, its API, and the translation of its errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import click

from streamling.cli.options import debug_option
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.output.redaction import add_secrets

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from streamling.http.blocking import HttpResponse

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SERVER = "http://127.0.0.1:4195"
_TIMEOUT_SECONDS = 30.0
#: the shell waits for completions
_COMPLETION_SECONDS = 1.0
_MAX_BYTES = 64 * 1024 * 1024

#: last paragraph of a help page
EXIT_CODES = """\b
Exit codes:
  0   done
  1   the server or a pipeline reported a problem
  2   wrong usage
  78  the definition is not valid"""


class ServerError(StreamlingError):
    """A response of the server that is not a success."""

    def __init__(self, status: int, message: str, remedy: str | None) -> None:
        super().__init__(message, internal=False, remedy=remedy)
        self.status = status


@dataclass(frozen=True)
class Server:
    """The HTTP API of one server."""

    url: str
    token: str | None = field(default=None, repr=False)

    def get(self, path: str, query: Mapping[str, str] | None = None, *, seconds: float = _TIMEOUT_SECONDS) -> Any:
        """The JSON value at ``path`` below `/api/v1`."""
        return self.send("GET", f"{path}?{urlencode(query)}" if query else path, seconds=seconds)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        file: str = "",
        seconds: float = _TIMEOUT_SECONDS,
    ) -> Any:
        """Send ``body`` as JSON and return the response. ``file`` is the file that problems of a definition are in."""
        from http.client import HTTPException

        from streamling.http.blocking import send_request
        from streamling.http.errors import ResponseTooLargeError

        data = None if body is None else json.dumps(body).encode()
        sent = {**self._headers(), **({} if data is None else {"Content-Type": "application/json"}), **(headers or {})}
        try:
            response = send_request(
                f"{self.url}/api/v1{path}",
                headers=sent, data=data, method=method, seconds=seconds, max_bytes=_MAX_BYTES,
            )  # fmt: skip
        except (OSError, HTTPException, ResponseTooLargeError) as error:
            raise self._unreachable(error) from None
        if response.status >= 300:
            raise self._error(response, file)
        return self._decoded(response)

    def lines(self, path: str, query: Mapping[str, str]) -> Iterator[str]:
        """The lines of a response as they arrive."""
        from http.client import HTTPException

        from streamling.http.blocking import HttpResponse, open_stream

        url = f"{self.url}/api/v1{path}?{urlencode(query)}"
        try:
            with open_stream(url, headers=self._headers(), seconds=_TIMEOUT_SECONDS) as response:
                if response.status >= 300:
                    body = response.body.read(_MAX_BYTES)
                    raise self._error(
                        HttpResponse(response.status, response.reason, response.content_type, body), file=""
                    )
                while line := response.body.readline(_MAX_BYTES):
                    yield line.decode("utf-8", "replace").rstrip("\n")
        except (OSError, HTTPException) as error:
            raise self._unreachable(error) from None

    def pages(self, path: str, query: Mapping[str, str]) -> Iterator[Any]:
        """The items of all pages of a list."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.get(path, {**query, **({"cursor": cursor} if cursor else {})})
            yield from page["items"]
            cursor = page.get("next")

    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def _decoded(self, response: HttpResponse) -> Any:
        try:
            return json.loads(response.body) if response.body else None
        except ValueError:
            raise self._not_ours(response) from None

    def _error(self, response: HttpResponse, file: str) -> StreamlingError:
        try:
            body = json.loads(response.body)
            message, remedy = str(body["error"]["message"]), body["error"].get("remedy")
            problems = [_problem(each, file) for each in body.get("problems") or ()]
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._not_ours(response)
        if problems:
            return InvalidPipeline(problems)
        return ServerError(response.status, message, remedy)

    def _not_ours(self, response: HttpResponse) -> StreamlingError:
        return ServerError(
            response.status,
            f"{self.url} did not respond like a Streamling server: "
            f"{response.status} {response.reason} ({response.content_type})",
            "check the address in --server or STREAMLING_SERVER",
        )

    def _unreachable(self, error: Exception) -> StreamlingError:
        from http.client import HTTPException

        from streamling.http.blocking import reason_of

        reason = reason_of(error) if isinstance(error, OSError | HTTPException) else str(error)
        return StreamlingError.user(
            f"the server {self.url} cannot be reached: {reason}",
            remedy="start it with 'streamling serve', or name another one with --server or STREAMLING_SERVER",
        )


def pipeline_path(namespace: str, name: str) -> str:
    """The path of a pipeline in the API."""
    return f"/pipelines/{quote(namespace, safe='')}/{quote(name, safe='')}"


def _problem(found: Mapping[str, Any], file: str) -> Problem:
    line, column = int(found.get("line") or 0), int(found.get("column") or 0)
    return Problem(str(found["message"]), file, line, column, found.get("remedy"))


# ── options ──────────────────────────────────────────────────────────────────────────────────────────────────


def server_options(function: F) -> F:
    """Options that name the server; the command receives it as ``server``."""

    @wraps(function)
    def call(*args: Any, server: str | None, token: str | None, token_file: Path | None, **options: Any) -> Any:
        return function(*args, server=connect(server or DEFAULT_SERVER, token, token_file), **options)

    wrapped: Any = debug_option(call)
    named: F = address_options(f"Address of the server. Default: {DEFAULT_SERVER}.")(wrapped)
    return named


def address_options(help: str) -> Callable[[F], F]:
    """``--server`` with this help, and the token for it."""
    options = (
        click.option(
            "--token-file",
            envvar="STREAMLING_TOKEN_FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File that contains the token.",
        ),
        click.option(
            "--token",
            envvar="STREAMLING_TOKEN",
            help="Token for the server. Prefer STREAMLING_TOKEN or a file: arguments are visible to other users.",
        ),
        click.option("--server", envvar="STREAMLING_SERVER", metavar="URL", help=help),
    )

    def add(function: F) -> F:
        for option in options:
            function = option(function)
        return function

    return add


def namespace_option(function: F) -> F:
    return click.option(
        "--namespace", "-n", envvar="STREAMLING_NAMESPACE", default="default", show_default=True,
        help="Namespace of the pipeline.",
    )(function)  # fmt: skip


def connect(url: str, token: str | None, token_file: Path | None) -> Server:
    """The server at ``url``; nothing is sent yet."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise click.BadParameter(f"'{url}' is not an address such as {DEFAULT_SERVER}", param_hint="--server")
    if token is None and token_file is not None:
        token = _token_in(token_file)
    if token is not None:
        token = token.strip()
        add_secrets([token])
    return Server(url.rstrip("/"), token or None)


def _token_in(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StreamlingError.user(
            f"the token file {file} cannot be read: {getattr(error, 'strerror', None) or error}",
            remedy="check --token-file or STREAMLING_TOKEN_FILE",
        ) from None


# ── completion of names ──────────────────────────────────────────────────────────────────────────────────────


def pipeline_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Pipelines of the server that begin with ``incomplete``; none if the server does not respond in time."""
    from click.shell_completion import CompletionItem

    given = ctx.params
    try:
        server = connect(given.get("server") or DEFAULT_SERVER, given.get("token"), given.get("token_file"))
        query = {"namespace": given.get("namespace") or "default", "q": incomplete}
        items = server.get("/pipelines", query, seconds=_COMPLETION_SECONDS)["items"]
    except (StreamlingError, click.ClickException, KeyError, TypeError):
        return []
    return [
        CompletionItem(item["name"], help=item.get("state")) for item in items if item["name"].startswith(incomplete)
    ]


def pipeline_name_argument(function: F) -> F:
    return click.argument("name", shell_complete=pipeline_names)(function)


def pipeline_names_argument(function: F) -> F:
    return click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=pipeline_names)(function)
