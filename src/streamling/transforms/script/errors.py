"""Error messages for failures of scripts."""

from __future__ import annotations

import pyarrow as pa

from streamling.errors import BadRow, StreamlingError
from streamling.transforms.script.engine import Cause, Limits, ScriptFailed
from streamling.transforms.script.program import DRIVER_ERROR, line_of, user_frames
from streamling.types.names import readable
from streamling.types.spark import sql_type

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
