"""Errors of nodes: each one names its node once and points at the option in the pipeline file that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streamling.errors import Problem, StreamlingError
from streamling.pipeline.document.location import Location
from streamling.pipeline.model import Node


@contextmanager
def node_errors(node: Node, doing: str = "") -> Iterator[None]:
    """Turn whatever is raised inside into a `StreamlingError` of ``node``."""
    try:
        yield
    except (Exception, SystemExit) as error:
        failure = node_error(error, node, doing)
        if failure is error:
            raise  # `from error` would make it its own cause
        raise failure from error


def node_error(error: BaseException, node: Node, doing: str = "") -> StreamlingError:
    """Return ``error`` of ``node``, which was ``doing`` something. One that another node has raised stays as it is."""
    if isinstance(error, StreamlingError) and error.node is not None:
        return add_location(error, node)
    return add_location(StreamlingError.wrap(error, doing).of_node(node.label), node)


def add_location(error: StreamlingError, node: Node) -> StreamlingError:
    """Return ``error`` with the place of the option of ``node`` that it is about, if it is about one."""
    is_of_node = error.node is None or error.node.name == node.name
    if is_of_node and error.option_location is not None and not error.location:
        location = location_of_error(error, node)
        if location.line:
            error.location = f"{location.file}:{location.line}:{location.column}"
            _remove_note(error)
    return error


def location_of_error(error: StreamlingError, node: Node) -> Location:
    """Return the place in the file that ``error`` is about; that of the node if it does not say."""
    if error.option_location is None:
        return node.location
    text = node.value_location(error.option_location.field)
    if not text.line:
        return node.location
    line, column = max(error.option_location.line - 1, 0), max(error.option_location.column - 1, 0)
    return Location(text.file, text.line + line, text.column + column)


def problem_from_error(error: StreamlingError, node: Node) -> Problem:
    """Return a user's error of ``node`` at its place in the file."""
    location = location_of_error(error, node)
    _remove_note(error)
    message, _, below = error.of_node(node.label).sentence.partition("\n")
    excerpt = getattr(error, "excerpt", "") or below
    return Problem(message, location.file, location.line, location.column, error.remedy, excerpt)


def _remove_note(error: StreamlingError) -> None:
    """Remove a note that says the same as the place in the file."""
    if error.option_location is not None and error.option_location.note:
        error.message = error.message.replace(error.option_location.note, "", 1)
