"""`state show|export|reset`: what a pipeline remembers between runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import (
    EXIT_CODES,
    Suggesting,
    config_option,
    debug_option,
    json_option,
    pipeline_argument,
)
from streamling.streams import write_data

if TYPE_CHECKING:
    from streamling.app import App
    from streamling.config import AppConfig
    from streamling.state import StateBackend

F = TypeVar("F", bound=Callable[..., Any])


@click.group(cls=Suggesting, epilog=EXIT_CODES)
def state() -> None:
    """Look at, save or forget what a pipeline remembers between runs.

    The state holds how far every source has come. It lies in the backend that the configuration names (state.db in the
    working directory by default), in the namespace `application_id`. Name the configuration as for `run`.

    \b
    Examples:
      streamling state show
      streamling state export --config production > backup.json
      streamling state reset --node orders
    """


def _node_option(function: F) -> F:
    return click.option("--node", metavar="NAME", help="Only what this node remembers.")(function)


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@_node_option
@json_option("A list of objects with node, key and value instead of the table.")
@debug_option
def show(pipeline_file: str | None, config_name: str | None, node: str | None, as_json: bool, debug: bool) -> int:
    """Show the state, one line per entry: node, key, value.

    With PIPELINE_FILE, entries of nodes that the file does not (or no longer) have are marked.

    \b
    Examples:
      streamling state show
      streamling state show pipeline.yaml --node orders
    """
    with _opened(pipeline_file, config_name, node) as remembered:
        if as_json:
            rows = [{"node": e.node, "key": e.key, "value": e.value} for e in remembered.entries]
            echo_json(rows)
        else:
            _show(remembered)
    return ExitCode.OK


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@_node_option
@debug_option
def export(pipeline_file: str | None, config_name: str | None, node: str | None, debug: bool) -> int:
    """Write the state as JSON to stdout: `application_id`, and `entries` with the values in full.

    \b
    Example:
      streamling state export > backup.json
    """
    with _opened(pipeline_file, config_name, node) as remembered:
        entries = {entry.key: entry.value for entry in remembered.entries}
        saved = {"application_id": remembered.app.config.application_id, "entries": entries}
        write_data(json.dumps(saved, indent=2, ensure_ascii=False))  # a backup holds what is there, and nothing else
    return ExitCode.OK


@state.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@_node_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@debug_option
def reset(pipeline_file: str | None, config_name: str | None, node: str | None, yes: bool, debug: bool) -> int:
    """Forget the state, of one node or all: the next run reads from the start, and rows come again.

    Stop the pipeline first: a running one stores its position again at the next checkpoint. Asks before it deletes.

    \b
    Examples:
      streamling state reset
      streamling state reset --node orders --yes
    """
    with _opened(pipeline_file, config_name, node) as remembered:
        if not remembered.entries:
            _show(remembered)
            return ExitCode.OK
        count = _counted(remembered.entries)
        if not yes:
            if not sys.stdin.isatty():
                raise click.UsageError("there is nobody to ask whether to forget the state; add --yes")
            if not click.confirm(f"Forget {count} {remembered.whose}?", err=True):
                click.echo("nothing was forgotten", err=True)
                return ExitCode.FAILED
        assert remembered.backend is not None
        remembered.backend.put_many({entry.key: None for entry in remembered.entries})
        click.echo(f"forgot {count} {remembered.whose}", err=True)
    return ExitCode.OK


# ── what is there ────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class _Entry:
    node: str
    key: str
    value: Any
    #: False when the pipeline file has no such node
    known: bool


@dataclass(frozen=True)
class _Remembered:
    app: App
    #: None when there is none yet; looking must not create one
    backend: StateBackend | None
    node: str | None
    entries: tuple[_Entry, ...]

    @property
    def whose(self) -> str:
        application = self.app.config.application_id
        return f"of {application}" if self.node is None else f"of node '{self.node}' of {application}"


@contextmanager
def _opened(pipeline_file: str | None, config_name: str | None, node: str | None) -> Iterator[_Remembered]:
    from streamling.app import App
    from streamling.state import find_state
    from streamling.telemetry.logging import configure_logging

    configure_logging("text", "warn")
    app = App.load(config_name)
    names = None if pipeline_file is None else _node_names(pipeline_file, app.config)
    found = find_state(app.config)
    if found is None:
        yield _Remembered(app, None, node, ())
        return
    with found as backend:
        entries = tuple(_entries(backend.items(), names))
        if node is not None:
            entries = _of_node(node, entries, names)
        yield _Remembered(app, backend, node, entries)


def _node_names(pipeline_file: str, config: AppConfig) -> frozenset[str] | None:
    """The names of the nodes in the file, without importing the plugins that check or rewrite it; None when a
    preprocessor decides which nodes there are."""
    from streamling.errors import InvalidPipeline, Problem
    from streamling.pipeline.model import NodeKind
    from streamling.pipeline.yaml import load_yaml

    if config.plugin.preprocessor_ids:
        return None
    try:
        document = load_yaml(Path(pipeline_file).read_bytes(), pipeline_file)
    except OSError as error:
        message = f"the pipeline file cannot be read: {error.strerror or error}"
        raise InvalidPipeline([Problem(message, pipeline_file, remedy="check the path")]) from None
    if document.problems:
        raise InvalidPipeline(list(document.problems))
    data = document.data if isinstance(document.data, dict) else {}
    sections = [data.get(kind.section) for kind in NodeKind]
    names = {str(name) for section in sections if isinstance(section, dict) for name in section}
    attached = {f"{name}.{id}" for name in names for id in config.plugin.side_output_ids}
    return frozenset(names | attached)


def _entries(items: Mapping[str, Any], names: frozenset[str] | None) -> Iterator[_Entry]:
    from streamling.engine.description import owner

    for key, value in items.items():
        node = owner(key, names or frozenset())
        yield _Entry(node, key, value, known=names is None or node in names)


def _of_node(node: str, entries: tuple[_Entry, ...], names: frozenset[str] | None) -> tuple[_Entry, ...]:
    found = tuple(entry for entry in entries if entry.node == node)
    known = {entry.node for entry in entries} | (names or frozenset())
    if not found and node not in known and known:
        close = get_close_matches(node, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(sorted(known))}"
        raise click.BadParameter(f"there is no state of a node '{node}'; {hint}", param_hint="--node")
    return found


def _show(remembered: _Remembered) -> None:
    from streamling.engine.description import state_place

    config = remembered.app.config
    place = state_place(config)
    if config.state_backend.backend_type == "InMemory":
        click.echo("state_backend is InMemory: the state ends with the process, there is nothing to see", err=True)
        return
    if not remembered.entries:
        click.echo(f"nothing is remembered {remembered.whose} ({place})", err=True)
        return
    click.echo(f"{_counted(remembered.entries)} {remembered.whose} ({place})", err=True)
    canvas = canvas_of_stdout()
    rows = [
        (entry.node if entry.known else f"{entry.node} (not in the file)", entry.key, _short(entry.value))
        for entry in remembered.entries
    ]
    for line in canvas.table(("NODE", "KEY", "VALUE"), rows):
        click.echo(line, color=True)


def _counted(entries: tuple[_Entry, ...]) -> str:
    return "1 entry" if len(entries) == 1 else f"{len(entries)} entries"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:199]}…"
