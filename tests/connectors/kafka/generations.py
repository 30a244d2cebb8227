"""Topics whose schema changed: messages of several generations, and their rows with the latest schema."""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.connectors.kafka.source_driver import record

_TEXT = ["null", "string"]


class Story(NamedTuple):
    """What was written, with which schema, in order; and the rows that are read from all of it."""

    written: list[tuple[Any, dict[str, Any]]]
    read: list[tuple[Any, ...]]


def _id(*fields: Any) -> Any:
    return record("id", *fields)


STORIES = {
    "a nullable field is added": Story(
        [(_id(), {"id": 1}), (_id(("n", _TEXT, None)), {"id": 2, "n": "x"})],
        [(1, None), (2, "x")],
    ),
    "a field with a default is added": Story(
        [(_id(), {"id": 1}), (_id(("n", "int", 7)), {"id": 2, "n": 8})],
        [(1, 7), (2, 8)],
    ),
    "a field is removed": Story(
        [(_id("gone"), {"id": 1, "gone": 5}), (_id(), {"id": 2})],
        [(1,), (2,)],
    ),
    "int becomes long": Story(
        [(_id(("n", "int")), {"id": 1, "n": -5}), (_id(("n", "long")), {"id": 2, "n": 2**40})],
        [(1, -5), (2, 2**40)],
    ),
    "float becomes double": Story(
        [(_id(("x", "float")), {"id": 1, "x": 0.5}), (_id(("x", "double")), {"id": 2, "x": 0.1})],
        [(1, 0.5), (2, 0.1)],
    ),
    "fields are matched by name": Story(
        [
            (_id(("a", "string"), ("b", "string")), {"id": 1, "a": "A", "b": "B"}),
            (_id(("b", "string"), ("a", "string")), {"id": 2, "a": "C", "b": "D"}),
        ],
        [(1, "B", "A"), (2, "D", "C")],
    ),
    "two fields are added": Story(
        [(_id(), {"id": 1}), (_id(("p", _TEXT, None), ("q", "int", 3)), {"id": 2, "p": "x", "q": 4})],
        [(1, None, 3), (2, "x", 4)],
    ),
    "a required field becomes nullable": Story(
        [(_id(("s", "string")), {"id": 1, "s": "x"}), (_id(("s", _TEXT)), {"id": 2, "s": None})],
        [(1, "x"), (2, None)],
    ),
    "an explicit null is not a default": Story(
        [(_id(), {"id": 1}), (_id(("n", ["string", "null"], "dflt")), {"id": 2, "n": None})],
        [(1, "dflt"), (2, None)],
    ),
    "a field is renamed": Story(
        [
            (_id(("old", _TEXT, None)), {"id": 1, "old": "x"}),
            (_id(("new", _TEXT, None)), {"id": 2, "new": "y"}),
        ],
        [(1, None), (2, "y")],
    ),
    "twelve messages of alternating generations": Story(
        [(_id(("n", "int", 7)), {"id": n, "n": n}) if n % 2 else (_id(), {"id": n}) for n in range(12)],
        [(n, n if n % 2 else 7) for n in range(12)],
    ),
    "three generations, interleaved": Story(
        [
            (_id(), {"id": 1}),
            (_id(("a", _TEXT, None)), {"id": 2, "a": "x"}),
            (_id(("a", _TEXT, None), ("b", "long", 9)), {"id": 3, "a": "y", "b": 1}),
            (_id(), {"id": 4}),
            (_id(("a", _TEXT, None), ("b", "long", 9)), {"id": 5, "a": None, "b": 2}),
            (_id(("a", _TEXT, None)), {"id": 6, "a": "z"}),
        ],
        [(1, None, 9), (2, "x", 9), (3, "y", 1), (4, None, 9), (5, None, 2), (6, "z", 9)],
    ),
}
