"""Shared by the commands for a server: the options that name it, and the completion of its pipelines."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import click

from streamling.cli._server import ServerClient
from streamling.cli.options import debug_option
from streamling.errors import StreamlingError
from streamling.redaction import add_secrets

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SERVER = "http://127.0.0.1:4195"
#: the shell waits for completions
_COMPLETION_SECONDS = 1.0

#: last paragraph of a help page
EXIT_CODES = """\b
Exit codes:
  0   done
  1   the server or a pipeline reported a problem
  2   wrong usage
  78  the definition is not valid"""


def server_options(function: F) -> F:
    """Add the options that name the server; the command receives it as ``server``."""

    @wraps(function)
    def call(*args: Any, server: str | None, token: str | None, token_file: Path | None, **options: Any) -> Any:
        return function(*args, server=connect(server or DEFAULT_SERVER, token, token_file), **options)

    wrapped: Any = debug_option(call)
    named: F = address_options(f"Address of the server. Default: {DEFAULT_SERVER}.")(wrapped)
    return named


def address_options(help: str) -> Callable[[F], F]:
    """Return a decorator that adds ``--server`` with this help, and the token for it."""
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


def connect(url: str, token: str | None, token_file: Path | None) -> ServerClient:
    """Return the server at ``url``; nothing is sent yet."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise click.BadParameter(f"'{url}' is not an address such as {DEFAULT_SERVER}", param_hint="--server")
    if token is None and token_file is not None:
        token = _token_in(token_file)
    if token is not None:
        token = token.strip()
        add_secrets([token])
    return ServerClient(url.rstrip("/"), token or None)


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
    """Return pipelines of the server that begin with ``incomplete``; none if the server does not respond in time."""
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
