"""What a look into one file tells about its columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Sample:
    fields: list[pa.Field]
    #: columns in which a null was found
    with_nulls: frozenset[str] = frozenset()
    #: typed columns with blanks around values or quoted empty values: Spark reads them as text, then casts
    loose: frozenset[str] = frozenset()
    #: Parquet columns without a type, as writers leave those of nothing but nulls: Spark cannot read them
    untyped: frozenset[str] = frozenset()
    #: timestamps that Spark reads as a number of nanoseconds
    nanoseconds: frozenset[str] = frozenset()
