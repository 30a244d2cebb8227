"""A set of texts inside Spark: expressions look up values in it, and no row leaves the JVM.

The set is a hash table in one byte array, built here, that Spark reads as one of its own arrays of texts: element N
holds every text whose hash ends in N, each between two marks. So there is nothing to build, copy or garbage-collect in
the JVM, and a look-up touches memory twice. CPU time measured for 500 000 look-ups among 100 000 texts: 0.16 s, and
0.13 s once for the table. A Java ``HashSet`` takes 0.33 s and 0.2 s, a join with a cached table 0.4 s for every batch;
Spark's own IN prints all values whenever it describes a plan.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from streamling.spark.java import java_class

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: fraction of the heap that all sets of a table may use
_HEAP_SHARE: Final = 16
#: subsets are merged until each has this many times the texts of the next: few of them, and few merges
_GROWTH: Final = 4
#: bytes that no text contains
_BEGIN, _END = b"\xff", b"\xfe"
#: seed of Spark's xxhash64()
_SEED: Final = 42


class StringSet:
    """A growing set. Not thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._room = java_class(spark._jvm, "java.lang.Runtime").getRuntime().maxMemory() // _HEAP_SHARE
        #: each has at most a quarter of the texts of the one before
        self.subsets: list[_Subset] = []
        #: there is no room for all texts, so the set cannot be used any more
        self.full = False

    def add(self, texts: Collection[str]) -> None:
        """Add ``texts`` to the set."""
        if self.full or not texts:
            return
        added = pa.array(list(texts), pa.large_string())
        while self.subsets and len(self.subsets[-1].texts) < _GROWTH * len(added):
            added = pc.unique(pa.concat_arrays([self.subsets.pop().texts, added]))
        table, mask = hash_table(added)
        if sum(each.size for each in self.subsets) + len(table) > self._room:
            self.full, self.subsets = True, []
            return
        jsc: Any = self._spark._jsc
        java_table = java_class(self._spark._jvm, "streamling.plan.TextTable")(jsc.sc(), table, mask)
        self.subsets.append(_Subset(added, len(table), java_table))

    def lookup_expression(self) -> Callable[[Column], Column]:
        """Return an expression for whether a column of texts is in the current set; NULL for NULL."""
        from pyspark.sql import functions as f

        subsets = tuple(self.subsets)
        if not subsets:
            return lambda value: f.when(value.isNotNull(), f.lit(False))
        return lambda value: reduce(or_, (each.contains(value) for each in subsets))


@dataclass(frozen=True)
class _Subset:
    """Some of the texts, and their hash table in the JVM (`TextTable.java`)."""

    texts: pa.Array
    size: int
    table: Any

    def contains(self, value: Column) -> Column:
        from pyspark.sql import Column

        return Column(self.table.contains(value._jc))


def hash_table(texts: pa.Array) -> tuple[bytes, int]:
    """Return the array in Spark's layout (number of elements, a bit for each NULL, offset and length of each, all
    bytes), and the bits of a hash that select the element."""
    count = 1 << (len(texts) - 1).bit_length()
    content = texts.cast(pa.large_binary())
    hashes = pa.array([xxhash.xxh64_intdigest(text, _SEED) for text in content.to_pylist()], pa.uint64())
    slots = pc.bit_wise_and(hashes, pa.scalar(count - 1, pa.uint64())).cast(pa.int64())
    begin, end, nothing = (pa.scalar(mark, pa.large_binary()) for mark in (_BEGIN, _END, b""))
    marked = pc.binary_join_element_wise(begin, content, end, nothing)
    elements = pa.table({"slot": slots, "size": pc.binary_length(marked)}).group_by("slot").aggregate([("size", "sum")])
    sizes = pc.scatter(
        elements.column("size_sum").combine_chunks(), elements.column("slot").combine_chunks(), max_index=count - 1
    ).fill_null(0)
    nulls = bytes((count + 63) // 64 * 8)
    offsets = pc.add(pc.subtract(pc.cumulative_sum(sizes), sizes), 8 + len(nulls) + 8 * count)
    locations = pc.bit_wise_or(pc.shift_left(offsets, 32), sizes)
    in_order = marked.take(pc.sort_indices(slots))
    return b"".join([struct.pack("<q", count), nulls, locations.buffers()[1], in_order.buffers()[2]]), count - 1
