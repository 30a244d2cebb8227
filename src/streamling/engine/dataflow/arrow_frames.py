"""Makes DataFrames of Arrow data and keeps those that are no longer used from filling the JVM's heap."""

from __future__ import annotations

import gc
import threading
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: bytes of Arrow data in frames after which those that are no longer used are released: 30 to 120 ms each time
_RELEASE_BYTES: Final = 32 << 20


class _Frames:
    """Counts the data that has been passed to the JVM.

    Py4j's references to Java objects are cycles, so the JVM keeps a frame until Python's garbage collector runs. That
    depends on the number of Python objects, not on the size of what they refer to: without a release, 45 batches of
    20 000 rows filled a heap of 512 MB.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = 0

    def add(self, size: int) -> None:
        with self._lock:
            self._bytes += size
            if self._bytes <= _RELEASE_BYTES:
                return
            self._bytes = size
        gc.collect()


#: one per process, like the garbage collector
_FRAMES: Final = _Frames()


def to_frame(session: SparkSession, batches: list[pa.RecordBatch]) -> DataFrame:
    """Return a frame with the rows of ``batches``, of which there is at least one."""
    from streamling.types.spark import to_physical, to_spark_schema

    table = pa.Table.from_batches(batches)
    _FRAMES.add(table.nbytes)
    return session.createDataFrame(to_physical(table), to_spark_schema(table.schema))
