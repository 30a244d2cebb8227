"""What a look into one file tells about its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True)
class Sample:
    #: columns in types of the source
    fields: list[pa.Field]
    #: columns in which a null was found
    with_nulls: frozenset[str] = frozenset()
    #: Parquet: columns in the types they are stored in
    stored: Mapping[str, pa.DataType] = field(default_factory=dict)
    #: Parquet: columns with Impala's 96-bit timestamps, which do not say whether they are instants
    int96: frozenset[str] = frozenset()
