"""Error messages for failures of scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.errors import BadRow, StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed
from streamling.transforms.script.program import DRIVER_ERROR, SOURCE_POSITION, line_of, user_frames
from streamling.transforms.script.syntax import parse_script, text_of
from streamling.types.names import readable
from streamling.types.spark import sql_type

if TYPE_CHECKING:
    from tree_sitter import Node


#: maximum number of stack frames shown
_FRAMES = 8
_REMEDIES = {
    Cause.TIME: "check for an endless loop, or raise wasm_script.timeout_sec",
    Cause.MEMORY: "keep less data, return smaller rows, or raise wasm_script.memory_limit_mb",
    Cause.STACK: "check for an endless recursion",
}
#: limits that reach a script as errors that it could catch
_CAUGHT = {
    ("InternalError", "out of memory"): Cause.MEMORY,
    ("InternalError", "string too long"): Cause.MEMORY,
    ("RangeError", "Invalid string length"): Cause.MEMORY,
    ("RangeError", "Maximum call stack size exceeded"): Cause.STACK,
}


def caught_failure(name: str, message: str, stack: str) -> ScriptFailed:
    """Return the failure that the driver caught when it called the script."""
    return ScriptFailed(_CAUGHT.get((name, message), Cause.THROWN), message, name=name, stack=stack)


def script_error(failure: ScriptFailed, limits: Limits, shown: str = "") -> StreamlingError:
    """Return an error with line, reason, stack, and ``shown``: the row that caused it."""
    own = failure.name == DRIVER_ERROR  # raised by the driver: no line of the script is wrong
    line = 0 if own else line_of(failure)
    note = f" in line {line}" if line else ""
    frames = [] if own else user_frames(failure.stack)[:_FRAMES]
    stack = "".join(f"\n  {frame}" for frame in frames)
    message, remedy = f"the script failed{note}: {_reason(failure, limits)}{stack}", _REMEDIES.get(failure.cause)
    if shown and failure.cause is not Cause.TIME:  # the time limit applies to the batch, so no single row is at fault
        return BadRow.user(message, remedy=remedy).showing(shown).about("script", line, note=note)
    return StreamlingError.user(f"{message}{shown}", remedy=remedy).about("script", line, note=note)


def invalid_value_error(field: pa.Field, found: str, detail: str, shown: str) -> StreamlingError:
    """Return the error for a value that its column cannot hold."""
    reason = f" ({detail})" if detail else ""
    kind = readable(sql_type(field))
    return BadRow.user(f"column '{field.name}' has type {kind}, which cannot hold {found}{reason}").showing(shown)


def unreadable_input_error(field: pa.Field, detail: str, shown: str) -> StreamlingError:
    """Return the error for an input value that JavaScript cannot represent."""
    return BadRow.user(f"the value of column '{field.name}' cannot be passed to a script ({detail})").showing(shown)


def _reason(failure: ScriptFailed, limits: Limits) -> str:
    match failure.cause:
        case Cause.TIME:
            return f"it ran longer than {limits.seconds:g} s for one batch"
        case Cause.MEMORY:
            return f"it needs more than {limits.memory_bytes >> 20} MiB of memory"
        case Cause.STACK:
            return "functions are nested too deeply"
        case Cause.BROKEN:
            return f"the sandbox failed: {failure.message}"
    if not failure.name and failure.message == "null":  # QuickJS also throws null if it has no memory for an error
        return f"it threw null, or it needs more than {limits.memory_bytes >> 20} MiB of memory"
    named = failure.name and failure.name != DRIVER_ERROR
    return f"{failure.name}: {failure.message}" if named else failure.message


# ── the line of an error ─────────────────────────────────────────────────────────────────────────────────────────
# QuickJS knows the line of a call and of a statement, but not that of a name: for `return missing(row)` it reports the
# previous line. The name itself is searched from there on.

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
