"""`pause`, `resume`, `restart`, `checkpoint` and `delete`: change what the pipelines of a server do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

from streamling.cli._server import ServerClient, pipeline_path
from streamling.cli._server_options import EXIT_CODES, namespace_option, pipeline_names_argument, server_options
from streamling.cli.canvas import echo_json
from streamling.cli.errors import ExitCode, exit_code, render
from streamling.cli.options import json_option
from streamling.errors import StreamlingError

F = TypeVar("F", bound=Callable[..., Any])

#: the server waits for a checkpoint for at most 300 s
_CHECKPOINT_SECONDS = 310.0


def _common_options(function: F) -> F:
    for option in (
        server_options,
        json_option("Print a list of the pipelines as objects."),
        namespace_option,
        pipeline_names_argument,
    ):
        function = option(function)
    return function


def _wait_options(function: F) -> F:
    for option in (
        click.option("--timeout", type=float, default=60.0, show_default=True, help="Maximum wait, in seconds."),
        click.option("--wait", is_flag=True, help="Wait until it is done."),
    ):
        function = option(function)
    return function


@click.command(epilog=EXIT_CODES)
@_wait_options
@_common_options
def pause(server: ServerClient, **options: Any) -> int:
    """Pause pipelines: they finish their work in progress and store their position. They stay paused until `resume`,
    also after a restart of the server.

    \b
    Examples:
      streamling pause orders
      streamling pause orders customers --wait
    """
    return _change(server, "pause", **options)


@click.command(epilog=EXIT_CODES)
@_wait_options
@_common_options
def resume(server: ServerClient, **options: Any) -> int:
    """Let paused pipelines continue from their position.

    \b
    Example:
      streamling resume orders --wait
    """
    return _change(server, "resume", **options)


@click.command(epilog=EXIT_CODES)
@_wait_options
@_common_options
def restart(server: ServerClient, **options: Any) -> int:
    """Stop pipelines and start them again from their position: after a failure, or to use a changed secret.

    \b
    Example:
      streamling restart orders --wait
    """
    return _change(server, "restart", **options)


@click.command(epilog=EXIT_CODES)
@click.option("--timeout", type=click.FloatRange(0.1, 300), default=30.0, show_default=True, help="Maximum wait.")
@_common_options
def checkpoint(server: ServerClient, names: tuple[str, ...], timeout: float, **options: Any) -> int:
    """Make everything that pipelines have delivered durable and store their positions now.

    \b
    Example:
      streamling checkpoint orders
    """

    def store(path: str) -> Any:
        return server.send("POST", f"{path}/checkpoint?timeout={timeout:g}", seconds=_CHECKPOINT_SECONDS)

    return _for_each(names, store, "checkpoint {epoch} is stored", **options)


def _change(
    server: ServerClient,
    action: str,
    *,
    names: tuple[str, ...],
    namespace: str,
    wait: bool,
    timeout: float,
    **options: Any,
) -> int:
    from streamling.cli._server_wait import wait_until_settled

    def change(path: str) -> Any:
        found = server.send("POST", f"{path}/{action}")
        return wait_until_settled(server, namespace, found["name"], timeout) if wait else found

    return _for_each(names, change, "{state}" if wait else f"{action} requested", namespace=namespace, **options)


@click.command(epilog=EXIT_CODES)
@click.option("--delete-state", is_flag=True, help="Also delete the stored positions and consumer group offsets.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@_wait_options
@_common_options
def delete(
    server: ServerClient,
    names: tuple[str, ...],
    namespace: str,
    delete_state: bool,
    yes: bool,
    wait: bool,
    timeout: float,
    **options: Any,
) -> int:
    """Delete pipelines of a server: they finish their work in progress, store their position and are removed.

    The stored positions stay, so that a pipeline that is created again under the same name continues from them;
    --delete-state deletes them too. Asks for confirmation.

    \b
    Examples:
      streamling delete orders
      streamling delete orders customers --delete-state --yes
    """
    from streamling.cli._server_wait import wait_until_deleted

    what = f"{', '.join(names)}{' with the stored positions' if delete_state else ''}"
    if not yes:
        if not sys.stdin.isatty():
            raise click.UsageError("cannot ask for confirmation on stdin; add --yes")
        if not click.confirm(f"Delete {what} on {server.url}?", err=True):
            click.echo("nothing was deleted", err=True)
            return ExitCode.FAILED
    state = "delete" if delete_state else "keep"

    def remove(path: str) -> Any:
        found = server.send("DELETE", f"{path}?state={state}")
        if wait:
            wait_until_deleted(server, namespace, found["name"], timeout)
        return found

    return _for_each(names, remove, "deleted" if wait else "deletion requested", namespace=namespace, **options)


def _for_each(
    names: Iterable[str], call: Callable[[str], Any], done: str, *, namespace: str, as_json: bool, debug: bool
) -> int:
    """Call ``call`` with the path of each pipeline; a failure is printed and does not stop the others."""
    results, code = [], int(ExitCode.OK)
    for name in names:
        try:
            found = call(pipeline_path(namespace, name))
        except StreamlingError as error:
            print(render(error, debug=debug), file=sys.stderr)
            code = max(code, exit_code(error))
            continue
        results.append(found)
        if not as_json:
            click.echo(f"{name}: {done.format(**found)}")
    if as_json:
        echo_json(results)
    return code
