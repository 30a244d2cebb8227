"""Errors at the place of the pipeline file that they are about."""

from __future__ import annotations

from streamling.document.location import Location
from streamling.errors import Problem, StreamlingError
from streamling.pipeline.model import Node


def add_location(error: StreamlingError, node: Node) -> StreamlingError:
    """``error`` of ``node`` with the place of the option that it is about, where it says so."""
    if error.option_location is not None and not error.location:
        location = place_of(error, node)
        if location.line:
            error.location = f"{location.file}:{location.line}:{location.column}"
            if error.option_location.note:
                error.message = error.message.replace(error.option_location.note, "", 1)
    return error


def place_of(error: StreamlingError, node: Node) -> Location:
    """Where in the file what ``error`` is about stands; the node itself when it does not say."""
    if error.option_location is None:
        return node.location
    text = node.value_location(error.option_location.field)
    if not text.line:
        return node.location
    line, column = max(error.option_location.line - 1, 0), max(error.option_location.column - 1, 0)
    return Location(text.file, text.line + line, text.column + column)


def problem_from_error(error: StreamlingError, node: Node) -> Problem:
    """A user's mistake at its place."""
    message = error.sentence if str(node) in error.sentence else f"{node}: {error.sentence}"
    if error.option_location is not None and error.option_location.note:
        message = message.replace(error.option_location.note, "", 1)
    location = place_of(error, node)
    message, _, below = message.partition("\n")
    return Problem(
        message, location.file, location.line, location.column, error.remedy, getattr(error, "excerpt", "") or below
    )
