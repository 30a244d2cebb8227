"""Finds the line that a script error is about.

QuickJS knows the line of a call and of a statement, but not that of a name: for ``return missing(row)`` it reports the
previous line. The name itself is searched from there on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from streamling.transforms.script.engine import Cause, ScriptFailed
from streamling.transforms.script.program import SOURCE_POSITION, line_of
from streamling.transforms.script.syntax import parse_script, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

#: messages about a name or a property
_NAME = re.compile(r"'?([\w$]+)'? is not defined")
_PROPERTY = re.compile(r"cannot (?:read|set) property '([\w$]+)' of (?:undefined|null)")


def with_error_line(failure: ScriptFailed, text: str) -> ScriptFailed:
    """Return ``failure`` with the line of the name that it is about."""
    line, innermost = line_of(failure), SOURCE_POSITION.search(failure.stack)
    if innermost is None or int(innermost[1]) != line:
        return failure
    found = _line_of_name(failure.message, text, line) if failure.cause is Cause.THROWN and line else None
    if found is None or found == line:
        return failure
    stack = SOURCE_POSITION.sub(lambda spot: spot[0].replace(f":{spot[1]}", f":{found}", 1), failure.stack, count=1)
    return ScriptFailed(failure.cause, failure.message, name=failure.name, stack=stack)


def _line_of_name(message: str, text: str, first: int) -> int | None:
    for pattern, kind in ((_NAME, "identifier"), (_PROPERTY, "property_identifier")):
        if found := pattern.fullmatch(message):
            lines = (number for number, name in _names(text, kind) if name == found[1] and number >= first)
            return min(lines, default=None)
    return None


def _names(text: str, kind: str) -> Iterator[tuple[int, str]]:
    """Yield lines and names, except those in comments and strings."""
    waiting: list[Node] = [parse_script(text)]
    while waiting:
        node = waiting.pop()
        if node.type == kind:
            yield node.start_point[0] + 1, text_of(node)
        waiting += node.children
