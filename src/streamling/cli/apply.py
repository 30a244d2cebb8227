"""`apply`: makes pipelines of a server equal to files."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from streamling.cli._server import ServerClient, ServerResponseError, pipeline_path
from streamling.cli._server_options import EXIT_CODES, namespace_option, server_options
from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode, exit_code, render
from streamling.cli.options import json_option, yaml_files
from streamling.errors import InvalidPipeline, Problem, StreamlingError


@click.command(epilog=EXIT_CODES)
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(dir_okay=False), shell_complete=yaml_files
)
@click.option(
    "--name", help="Name of the pipeline, if there is one FILE. Default: `name` in the file, or its file name."
)
@namespace_option
@click.option("--size", type=click.Choice(["xs", "s", "m", "l", "xl"]), help="Share of the server. Default: m.")
@click.option(
    "--isolation",
    type=click.Choice(["shared", "process"]),
    help="Run in the server's process or in a process of its own. Default: shared.",
)
@click.option(
    "--set",
    "settings",
    metavar="SETTING=VALUE",
    multiple=True,
    help="Setting for this pipeline only, such as checkpoint_interval_sec=1; replaces all earlier ones.",
)
@click.option("--wait", is_flag=True, help="Wait until the pipelines are ready, finished or failed.")
@click.option("--timeout", type=float, default=60.0, show_default=True, help="Maximum wait, in seconds.")
@json_option("Print a list of objects with namespace, name, file, result, generation, state and error.")
@server_options
def apply(
    server: ServerClient,
    files: tuple[str, ...],
    name: str | None,
    namespace: str,
    size: str | None,
    isolation: str | None,
    settings: tuple[str, ...],
    wait: bool,
    timeout: float,
    as_json: bool,
    debug: bool,
) -> int:
    """Create or update one pipeline per FILE on a server; files that have not changed are left alone.

    An updated pipeline finishes its work in progress and continues from its position with the new definition. Size,
    isolation, settings and whether it is paused stay as they are unless an option says otherwise.

    If somebody else changes the pipeline at the same time, nothing is changed and the command fails. One bad file does
    not keep the others from being applied.

    \b
    Examples:
      streamling apply orders.yaml
      streamling apply pipelines/*.yaml --wait
      streamling apply orders.yaml --size l --set checkpoint_interval_sec=1
      STREAMLING_SERVER=https://streams.internal streamling apply orders.yaml --namespace shop
    """
    if name is not None and len(files) > 1:
        raise click.UsageError("--name needs exactly one FILE")
    changes = {"size": size, "isolation": isolation, "config": _parsed_settings(settings) if settings else None}
    wanted = {field: value for field, value in changes.items() if value is not None}
    results = [_applied(server, namespace, file, name, wanted, timeout if wait else None, debug) for file in files]
    if as_json:
        echo_json([result.as_object() for result in results])
    else:
        rows = [(result.name, result.result, result.state, result.file) for result in results]
        for line in canvas_of_stdout().table(("NAME", "RESULT", "STATE", "FILE"), rows):
            click.echo(line, color=True)
    return max((result.exit_code for result in results), default=ExitCode.OK)


@dataclass(frozen=True)
class _Result:
    namespace: str
    name: str
    file: str
    result: str
    generation: int | None = None
    state: str = ""
    error: str | None = None
    exit_code: int = ExitCode.OK

    def as_object(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "exit_code"}


def _applied(
    server: ServerClient,
    namespace: str,
    file: str,
    given: str | None,
    wanted: dict[str, Any],
    wait: float | None,
    debug: bool,
) -> _Result:
    """Apply one file; a failure is printed and becomes part of the result."""
    from streamling.cli._server_wait import NotSettled, wait_until_settled

    name, result = given or Path(file).stem, "failed"
    found: dict[str, Any] = {"generation": None, "state": ""}
    try:
        definition = _read(file)
        name = given or _declared_name(definition, file) or name
        result, found = _put(server, namespace, name, file, {"definition": definition, **wanted})
        if wait is not None:
            found = wait_until_settled(server, namespace, name, wait)
    except StreamlingError as error:
        print(render(error, debug=debug), file=sys.stderr)
        found = error.pipeline if isinstance(error, NotSettled) else found
        return _Result(namespace, name, file, result, found["generation"], found["state"], str(error), exit_code(error))
    return _Result(namespace, name, file, result, found["generation"], found["state"])


def _put(
    server: ServerClient, namespace: str, name: str, file: str, wanted: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return what was done, and the pipeline."""
    path = pipeline_path(namespace, name)
    found = _find(server, path)
    kept = {} if found is None else {key: found[key] for key in ("config", "size", "isolation", "desired")}
    body = {**kept, **wanted}
    if found is not None and all(found[key] == value for key, value in body.items()):
        return "unchanged", found
    condition = {"If-None-Match": "*"} if found is None else {"If-Match": found["etag"]}
    try:
        changed = server.send("PUT", path, body, headers=condition, file=file)
    except ServerResponseError as error:
        if error.status != 412:
            raise
        raise StreamlingError.user(
            f"{name} was changed by somebody else while {file} was applied; nothing was changed",
            remedy=f"compare with 'streamling describe {name}', then apply again",
        ) from None
    return "created" if found is None else "updated", changed


def _find(server: ServerClient, path: str) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = server.get(path)
        return found
    except ServerResponseError as error:
        if error.status == 404:
            return None
        raise


def _read(file: str) -> str:
    try:
        return Path(file).read_bytes().decode("utf-8-sig")
    except OSError as error:
        problem = Problem(f"the pipeline file cannot be read: {error.strerror or error}", file, remedy="check the path")
        raise InvalidPipeline([problem]) from None
    except UnicodeDecodeError:
        raise InvalidPipeline([Problem("the file is not UTF-8 text", file, remedy="save it as UTF-8")]) from None


def _declared_name(definition: str, file: str) -> str:
    from streamling.pipeline.document.loader import load_yaml

    return load_yaml(definition, file).name


def _parsed_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """Return ``("a.b=1",)`` as ``{"a": {"b": 1}}``."""
    from streamling.pipeline.document.loader import plain_scalar

    parsed: dict[str, Any] = {}
    for text in settings:
        path, equals, value = text.partition("=")
        *sections, last = path.split(".")
        if not equals or not all((*sections, last)):
            raise click.BadParameter(f"'{text}' is not SETTING=VALUE", param_hint="--set")
        section = parsed
        for each in sections:
            section = section.setdefault(each, {})
        section[last] = plain_scalar(value)
    return parsed
