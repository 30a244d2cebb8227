"""Errors at the place of the pipeline file that they are about."""

from __future__ import annotations

from streamling.document.location import Location
from streamling.errors import Problem, StreamlingError
from streamling.pipeline.model import Node


def located(error: StreamlingError, node: Node) -> StreamlingError:
    """``error`` of ``node`` with the place of the option that it is about, where it says so."""
    if error.spot is not None and not error.place:
        place = place_of(error, node)
        if place.line:
            error.place = f"{place.file}:{place.line}:{place.column}"
            if error.spot.note:
                error.message = error.message.replace(error.spot.note, "", 1)
    return error


def place_of(error: StreamlingError, node: Node) -> Location:
    """Where in the file what ``error`` is about stands; the node itself when it does not say."""
    if error.spot is None:
        return node.place
    text = node.text_of(error.spot.field)
    if not text.line:
        return node.place
    line, column = max(error.spot.line - 1, 0), max(error.spot.column - 1, 0)
    return Location(text.file, text.line + line, text.column + column)


def problem_of(error: StreamlingError, node: Node) -> Problem:
    """A user's mistake at its place."""
    message = error.sentence if str(node) in error.sentence else f"{node}: {error.sentence}"
    if error.spot is not None and error.spot.note:
        message = message.replace(error.spot.note, "", 1)
    place = place_of(error, node)
    message, _, below = message.partition("\n")
    return Problem(message, place.file, place.line, place.column, error.remedy, getattr(error, "excerpt", "") or below)
