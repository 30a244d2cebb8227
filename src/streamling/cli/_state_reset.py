"""`state reset`: deletes entries of the state and offsets of consumer groups, and moves a damaged state file aside."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamling.cli.errors import ExitCode
from streamling.errors import InvalidPipeline, StreamlingError

if TYPE_CHECKING:
    from streamling.cli.state import StateSelection
    from streamling.engine.launch.launcher import Launcher
    from streamling.plugins.connections import ExternalPosition
    from streamling.plugins.state_backend import StateStore


def reset_positions(selection: StateSelection, file: str | None, *, yes: bool, debug: bool) -> int:
    """Delete the entries and, with a pipeline ``file``, what its nodes store outside the state."""
    with _outside_positions(selection.launcher, file, selection.node, debug=debug) as outside:
        entries = [f"{selection.counted} {selection.description}"] if selection.entries else []
        if not entries and not outside:
            click.echo(f"there is no state {selection.description}", err=True)
            return ExitCode.OK
        if not _confirm(f"Delete {_joined([*entries, *(position.what for position in outside)])}?", yes=yes):
            return ExitCode.FAILED
        with selection.launcher.state_store.locked():
            # first what may fail, so that a failure leaves everything unchanged
            forgotten = [position.what for position in outside if _forget(position)]
            if selection.backend is not None:
                selection.backend.put_many({entry.key: None for entry in selection.entries})
    what = _joined([*entries, *forgotten])
    click.echo(f"deleted {what}" if what else f"there is no state {selection.description}", err=True)
    return ExitCode.OK


def move_aside(store: StateStore[Any], error: StreamlingError, *, yes: bool) -> int:
    """Move an unusable state file aside, so that the next run starts with an empty one."""
    path = store.files()[0]
    click.echo(f"{error}", err=True)
    suffix = time.strftime("damaged-%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.name}.{suffix}")
    if not _confirm(f"Move it to {aside}? It may hold the state of other pipelines too.", yes=yes):
        return ExitCode.FAILED
    with store.locked():
        for file in store.files():
            _move(file, file.with_name(f"{file.name}.{suffix}"))
    click.echo(
        (
            f"moved {path} to {aside}; the next run starts with an empty state. Offsets in consumer groups "
            "are still there: run the same command again to delete them too"
        ),
        err=True,
    )
    return ExitCode.OK


def _move(file: Path, target: Path) -> None:
    try:
        file.rename(target)
    except OSError as error:
        raise StreamlingError.user(
            f"{file} cannot be moved to {target}: {error.strerror}",
            remedy=("give this user write permission for the folder"),
        ) from None


@contextmanager
def _outside_positions(
    launcher: Launcher, file: str | None, node: str | None, *, debug: bool
) -> Iterator[list[ExternalPosition]]:
    """Yield what the nodes of ``file`` store outside the state; starts Spark only for nodes that need it."""
    from streamling.engine.launch.check import PipelineCheck

    if file is None or not Path(file).exists():
        yield []
        return
    try:
        check = PipelineCheck(launcher, file, debug=debug)
    except InvalidPipeline as error:
        click.echo(
            f"skipping the offsets of consumer groups because {file} is not valid: {error.problems[0]}", err=True
        )
        yield []
        return
    with check:
        yield check.external_positions(node)


def _forget(position: ExternalPosition) -> bool:
    try:
        return position.reset()
    except StreamlingError as error:
        remedy = f"{error.remedy}; " if error.remedy else ""
        error.remedy = (
            f"{remedy}or delete only the state with --state-only: the next run then continues from the group's offsets"
        )
        raise error.context(f"{position.what} cannot be deleted; nothing was deleted") from None


def _confirm(question: str, *, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation on stdin; add --yes")
    if click.confirm(question, err=True):
        return True
    click.echo("nothing was deleted", err=True)
    return False


def _joined(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))
