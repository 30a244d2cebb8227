"""Arrow types as text and back, as pyarrow prints them: for metadata, which can only hold text."""

from __future__ import annotations

import pyarrow as pa

_UNITS = ("s", "ms", "us", "ns")
_PLAIN: tuple[pa.DataType, ...] = (
    pa.uint8(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.float16(),
    pa.large_string(),
    pa.string_view(),
    pa.large_binary(),
    pa.binary_view(),
    pa.date64(),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in _UNITS),
    *(pa.timestamp(unit) for unit in _UNITS),
)
_BY_NAME = {str(type_): type_ for type_ in _PLAIN}


def arrow_type_name(type_: pa.DataType) -> str:
    """``uint8``, ``timestamp[ns, tz=UTC]``, ``fixed_size_binary[20]``."""
    return str(type_)


def arrow_type(name: str) -> pa.DataType | None:
    """The type a name of `arrow_type_name` stands for; None when it is none of those that need one."""
    head, _, rest = name.rstrip("]").partition("[")
    if head == "fixed_size_binary" and rest.isdigit():
        return pa.binary(int(rest))
    unit, _, zone = rest.partition(", tz=")
    if head == "timestamp" and unit in _UNITS:
        return pa.timestamp(unit, zone or None)
    return _BY_NAME.get(name)
