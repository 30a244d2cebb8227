"""What a sample of one file shows about its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class FileSample:
    #: columns in types of the source
    fields: list[pa.Field]
    #: columns in which a null was found
    with_nulls: frozenset[str] = frozenset()
    #: Parquet: columns with the types in which they are stored
    stored: Mapping[str, pa.DataType] = field(default_factory=dict)
    #: Parquet: columns with Impala's 96-bit timestamps, which may or may not be instants
    int96: frozenset[str] = frozenset()
