"""`state show|export|import|reset`: the state that a pipeline keeps between runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import click

from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import (
    EXIT_CODES,
    SuggestingGroup,
    config_option,
    debug_option,
    env_file_option,
    json_option,
    pipeline_argument,
)
from streamling.observe.terminal.streams import write_data

if TYPE_CHECKING:
    from streamling.engine.launch.launcher import Launcher
    from streamling.plugins.state_backend import StateBackend

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=SuggestingGroup, epilog=EXIT_CODES)
def state() -> None:
    """Show, back up, restore or reset the state of a pipeline.

    The state holds the position of every source. It is stored in the backend that the configuration names (by default
    state.db in the working directory), under the name of the pipeline: `application_id`, or else the name of the file.
    Name file and configuration as for `run`; the default file is ./pipeline.yaml.

    \b
    Examples:
      streamling state show
      streamling state export --config production > backup.json
      streamling state import backup.json
      streamling state reset --node orders
    """


def _node_option(function: F) -> F:
    return click.option("--node", metavar="NAME", help="Only the state of this node.")(function)


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@env_file_option
@_node_option
@json_option("Print a list of objects with node, key and value instead of the table.")
@debug_option
def show(pipeline_file: str | None, config_name: str | None, node: str | None, as_json: bool, debug: bool) -> int:
    """Show the state, one line per entry: node, key, value.

    With PIPELINE_FILE, entries of nodes that are not in the file are marked.

    \b
    Examples:
      streamling state show
      streamling state show pipeline.yaml --node orders
    """
    with _opened(*_load_app_and_file(pipeline_file, config_name), pipeline_file, node) as selection:
        if as_json:
            rows = [{"node": e.node, "key": e.key, "value": e.value} for e in selection.entries]
            echo_json(rows)
        else:
            _show(selection)
    return ExitCode.OK


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@env_file_option
@_node_option
@debug_option
def export(pipeline_file: str | None, config_name: str | None, node: str | None, debug: bool) -> int:
    """Print the state as JSON: `application_id`, and `entries` with the full values.

    \b
    Example:
      streamling state export > backup.json
    """
    with _opened(*_load_app_and_file(pipeline_file, config_name), pipeline_file, node) as selection:
        entries = {entry.key: entry.value for entry in selection.entries}
        saved = {"application_id": selection.launcher.config.application_id, "entries": entries}
        write_data(json.dumps(saved, indent=2, ensure_ascii=False))  # a backup is not redacted
    return ExitCode.OK


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@env_file_option
@_node_option
@click.option("--state-only", is_flag=True, help="Keep the offsets of consumer groups.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@debug_option
def reset(
    pipeline_file: str | None, config_name: str | None, node: str | None, state_only: bool, yes: bool, debug: bool
) -> int:
    """Delete the state of one node or all nodes: the next run reads from the start and replays all rows.

    The offsets that sources have committed to their consumer groups are deleted too: without a stored position, the
    source would continue from them. This needs the brokers and starts a JVM; use --state-only to skip it.

    Stop the pipeline first. Asks for confirmation. A state file that is damaged, or is not a SQLite database, is moved
    aside.

    \b
    Examples:
      streamling state reset
      streamling state reset --node orders --yes
    """
    from streamling.cli._state_reset import move_aside, reset_positions
    from streamling.plugins.state_backend import DamagedStateError

    launcher, file = _load_app_and_file(pipeline_file, config_name)
    try:
        with _opened(launcher, file, pipeline_file, node) as selection:
            return reset_positions(selection, None if state_only else file.path, yes=yes, debug=debug)
    except DamagedStateError as error:
        if node is not None:
            raise
        return move_aside(launcher.state_store, error, yes=yes)


@state.command("import", epilog=EXIT_CODES)
@click.argument("backup", type=click.File("r", encoding="utf-8"))
@pipeline_argument
@config_option
@env_file_option
@_node_option
@click.option("--yes", is_flag=True, help="Do not ask before replacing existing entries.")
@debug_option
def import_(
    backup: TextIO, pipeline_file: str | None, config_name: str | None, node: str | None, yes: bool, debug: bool
) -> int:
    """Store the entries of BACKUP, a file written by `state export`, or - for stdin.

    Entries with the same keys are replaced, others are kept. Stop the pipeline first. The entries may come from another
    pipeline or another backend.

    \b
    Examples:
      streamling state import backup.json
      streamling state export --config old | streamling state import - --config new --yes
    """
    entries = _backup_entries(backup, node)
    with _opened(*_load_app_and_file(pipeline_file, config_name), pipeline_file, None) as selection:
        replaced = [entry for entry in selection.entries if entry.key in entries]
        launcher = selection.launcher
    if replaced and not yes:
        if not sys.stdin.isatty() or backup.name == "<stdin>":
            raise click.UsageError("cannot ask for confirmation on stdin; add --yes")
        if not click.confirm(f"Replace {_counted(len(replaced))} {selection.description}?", err=True):
            click.echo("nothing was stored", err=True)
            return ExitCode.FAILED
    with launcher.state_store.locked(), launcher.state_store.open() as backend:
        backend.put_many(entries)
    click.echo(f"stored {_counted(len(entries))} {selection.description}", err=True)
    return ExitCode.OK


def _backup_entries(backup: TextIO, node: str | None) -> dict[str, Any]:
    from streamling.engine.state.store import owner
    from streamling.errors import StreamlingError

    try:
        saved = json.load(backup)
        entries = saved["entries"]
        entries = {str(key): value for key, value in entries.items() if node is None or owner(str(key)) == node}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise StreamlingError.user(
            f"{backup.name} is not a state backup", remedy=("use a file written by 'streamling state export'")
        ) from None
    if not entries:
        raise StreamlingError.user(f"{backup.name} has no entries" + (f" of node '{node}'" if node else ""))
    return entries


# ── reading the state ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Entry:
    node: str
    key: str
    value: Any
    #: False if the pipeline file has no such node
    known: bool


@dataclass(frozen=True)
class StateSelection:
    launcher: Launcher
    #: None if there is none yet; reading must not create one
    backend: StateBackend | None
    node: str | None
    entries: tuple[Entry, ...]

    @property
    def counted(self) -> str:
        return _counted(len(self.entries))

    @property
    def description(self) -> str:
        application = self.launcher.config.application_id
        return f"of {application}" if self.node is None else f"of node '{self.node}' of {application}"


def _load_app_and_file(pipeline_file: str | None, config_name: str | None) -> tuple[Launcher, _File]:
    """Return the configuration, and what the pipeline file says about its state."""
    from streamling.engine.launch.launcher import Launcher
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.model import Pipeline

    configure_logging("text", "warn")
    launcher = Launcher.load(config_name)
    file = _read_file(pipeline_file, launcher)
    return launcher.named_after(Pipeline((), file.path, file.name)), file


@contextmanager
def _opened(launcher: Launcher, file: _File, pipeline_file: str | None, node: str | None) -> Iterator[StateSelection]:
    names = None if pipeline_file is None else file.names
    found = _find(launcher, file.names)
    if found is None:
        _require_pipeline_file(launcher, file, pipeline_file)
        yield StateSelection(launcher, None, node, ())
        return
    with found as backend:
        entries = tuple(_entries(backend.items(), names))
        if not entries:
            _require_pipeline_file(launcher, file, pipeline_file)
        if node is not None:
            entries = _of_node(node, entries, names)
        yield StateSelection(launcher, backend, node, entries)


def _require_pipeline_file(launcher: Launcher, file: _File, pipeline_file: str | None) -> None:
    """Reject a default pipeline file that does not exist: "there is no state" would be misleading."""
    if pipeline_file is None and launcher.is_named_after_file and not Path(file.path).exists():
        raise click.UsageError(f"there is no pipeline file {file.path}; name the file whose state you mean")


def _find(launcher: Launcher, names: frozenset[str] | None) -> StateBackend | None:
    """Return the state of the pipeline, also if it was written before the pipeline had an `application_id`."""
    from streamling.engine.state.store import find_legacy_state, owner

    found = launcher.state_store.find()
    if not launcher.is_named_after_file or (found is not None and found.items()):
        return found
    known = names or frozenset()
    former = find_legacy_state(launcher.config, lambda key: not known or owner(key, known) in known)
    if former is not None and found is not None:
        found.close()
    return former or found


@dataclass(frozen=True)
class _File:
    """What a pipeline file says about its state."""

    path: str
    name: str = ""
    #: its nodes; None if a preprocessor decides them, or if there is no file
    names: frozenset[str] | None = None


def _read_file(pipeline_file: str | None, launcher: Launcher) -> _File:
    """Read the file without importing the plugins that check or rewrite it. A default file may be missing."""
    from streamling.errors import InvalidPipeline, Problem
    from streamling.pipeline.document.loader import load_yaml
    from streamling.pipeline.model import NodeKind
    from streamling.pipeline.variables import expand_name

    config = launcher.config
    path = pipeline_file or str(config.pipeline_definition_location)
    try:
        document = expand_name(load_yaml(Path(path).read_bytes(), path), launcher.variables)
    except OSError as error:
        if pipeline_file is None:
            return _File(path)
        message = f"the pipeline file cannot be read: {error.strerror or error}"
        raise InvalidPipeline([Problem(message, path, remedy="check the path")]) from None
    if document.problems:
        raise InvalidPipeline(list(document.problems))
    data = document.data if isinstance(document.data, dict) else {}
    if config.plugin.preprocessor_ids:
        return _File(path, document.name)
    sections = [data.get(kind.section) for kind in NodeKind]
    nodes = {str(node) for section in sections if isinstance(section, dict) for node in section}
    attached = {f"{node}.{id}" for node in nodes for id in config.plugin.side_output_ids}
    return _File(path, document.name, frozenset(nodes | attached))


def _entries(items: Mapping[str, Any], names: frozenset[str] | None) -> Iterator[Entry]:
    from streamling.engine.state.store import owner

    for key, value in items.items():
        node = owner(key, names or frozenset())
        yield Entry(node, key, value, known=names is None or node in names)


def _of_node(node: str, entries: tuple[Entry, ...], names: frozenset[str] | None) -> tuple[Entry, ...]:
    found = tuple(entry for entry in entries if entry.node == node)
    known = {entry.node for entry in entries} | (names or frozenset())
    if not found and node not in known and known:
        close = get_close_matches(node, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"nodes: {', '.join(sorted(known))}"
        raise click.BadParameter(f"node '{node}' has no state; {hint}", param_hint="--node")
    return found


def _show(selection: StateSelection) -> None:
    store = selection.launcher.state_store
    place = store.location
    if not store.is_durable:
        click.echo("state_backend is InMemory: the state is lost when the process ends", err=True)
        return
    if not selection.entries:
        click.echo(f"there is no state {selection.description} ({place})", err=True)
        return
    click.echo(f"{selection.counted} {selection.description} ({place})", err=True)
    canvas = canvas_of_stdout()
    rows = [
        (entry.node if entry.known else f"{entry.node} (not in the file)", entry.key, _short(entry.value))
        for entry in selection.entries
    ]
    for line in canvas.table(("NODE", "KEY", "VALUE"), rows):
        click.echo(line, color=True)


def _counted(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"
