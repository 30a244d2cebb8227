"""Numbers as text, as Arrow writes them: ``1e300`` where Spark has ``1.0E300``."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.inference import type_of
from streamling.sql.library.declaration import fill

#: Spark has exponents from 10⁷ and below 10⁻³ on, Arrow from 10¹⁶ and below 10⁻⁵ on; digits are the same
_BETWEEN = "(abs({0}) >= 1e7D AND abs({0}) < 1e16D OR abs({0}) < 1e-3D AND abs({0}) >= 1e-5D)"
_PLAIN = "regexp_replace(rtrim('0', CAST(CAST(CAST({0} AS STRING) AS DECIMAL(38, 21)) AS STRING)), '\\\\.$', '.0')"
_SHORT = "replace(replace(replace(CAST({0} AS STRING), 'Infinity', 'inf'), '.0E', 'e'), 'E', 'e')"
_FLOATING = f"if({_BETWEEN}, {_PLAIN}, {_SHORT})"


def as_text(value: exp.Expr, cast: str = "CAST") -> exp.Expr:
    """``CAST(value AS STRING)`` with the result it has in DataFusion."""
    floating = pa.types.is_floating(type_of(value) or pa.null())
    return fill(_FLOATING if floating else cast + "({0} AS STRING)", [value], pa.string())
