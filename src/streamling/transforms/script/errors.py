"""Failures of scripts as sentences for who wrote them."""

from __future__ import annotations

import pyarrow as pa

from streamling.errors import BadRow, StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed
from streamling.transforms.script.program import DRIVER_ERROR, line_of, user_frames
from streamling.types.names import readable
from streamling.types.spark import sql_type

#: of the stack that are shown
_FRAMES = 8
_REMEDIES = {
    Cause.TIME: "look for an endless loop, or raise wasm_script.timeout_sec",
    Cause.MEMORY: "keep less, return smaller rows, or raise wasm_script.memory_limit_mb",
    Cause.STACK: "look for a recursion that does not end",
}
#: limits that reach a script as errors it could catch
_CAUGHT = {
    ("InternalError", "out of memory"): Cause.MEMORY,
    ("InternalError", "string too long"): Cause.MEMORY,
    ("RangeError", "Invalid string length"): Cause.MEMORY,
    ("RangeError", "Maximum call stack size exceeded"): Cause.STACK,
}


def caught(name: str, message: str, stack: str) -> ScriptFailed:
    """What the driver caught when it called the script."""
    return ScriptFailed(_CAUGHT.get((name, message), Cause.THROWN), message, name=name, stack=stack)


def script_error(failure: ScriptFailed, limits: Limits, shown: str = "") -> StreamlingError:
    """Line, reason, stack, and ``shown``: the row it happened at."""
    own = failure.name == DRIVER_ERROR  # of the driver: no line of the script is wrong
    line = 0 if own else line_of(failure)
    note = f" in line {line}" if line else ""
    frames = [] if own else user_frames(failure.stack)[:_FRAMES]
    stack = "".join(f"\n  {frame}" for frame in frames)
    message, remedy = f"the script failed{note}: {_reason(failure, limits)}{stack}", _REMEDIES.get(failure.cause)
    if shown and failure.cause is not Cause.TIME:  # the time is that of the batch, no row is to blame
        return BadRow.user(message, remedy=remedy).showing(shown).about("script", line, note=note)
    return StreamlingError.user(f"{message}{shown}", remedy=remedy).about("script", line, note=note)


def invalid_value_error(field: pa.Field, found: str, why: str, shown: str) -> StreamlingError:
    """A value that its column cannot take."""
    reason = f" ({why})" if why else ""
    kind = readable(sql_type(field))
    return BadRow.user(f"column '{field.name}' is {kind} and cannot take {found}{reason}").showing(shown)


def unreadable_input_error(field: pa.Field, why: str, shown: str) -> StreamlingError:
    """A value of the input that has no form in JavaScript."""
    return BadRow.user(f"a script cannot take the value of column '{field.name}' ({why})").showing(shown)


def _reason(failure: ScriptFailed, limits: Limits) -> str:
    match failure.cause:
        case Cause.TIME:
            return f"it ran longer than {limits.seconds:g} s for one batch"
        case Cause.MEMORY:
            return f"it needs more than {limits.memory_bytes >> 20} MiB of memory"
        case Cause.STACK:
            return "functions call each other too deeply"
        case Cause.BROKEN:
            return f"the sandbox broke: {failure.message}"
    if not failure.name and failure.message == "null":  # what QuickJS throws when an error would need memory, too
        return f"it threw null, or it needs more than {limits.memory_bytes >> 20} MiB of memory"
    named = failure.name and failure.name != DRIVER_ERROR
    return f"{failure.name}: {failure.message}" if named else failure.message
