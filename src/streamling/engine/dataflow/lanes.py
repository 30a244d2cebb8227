"""A node that runs in lanes, and which of them gets which rows (`parallelism`)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa

from streamling.engine.dataflow.alignment import Port
from streamling.engine.dataflow.lane import Lane
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.segment import Segment
from streamling.pipeline.model import Node


class Router:
    """Divides batches among ``instances``: by key, so that all operations on one key stay in order on one instance;
    without a key, batches go to the instances in turn."""

    def __init__(self, instances: int, key: tuple[str, ...] = ()) -> None:
        self._instances = instances
        self._key = key
        self._turn = 0

    def split(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
        if self._instances == 1:
            yield 0, batch
        elif not self._key or any(name not in batch.schema.names for name in self._key):
            yield self._turn, batch
            self._turn = (self._turn + 1) % self._instances
        else:
            import pyarrow.compute as pc  # takes 25 ms: not imported when the pipeline file is invalid

            owner = self._owners(batch)
            for instance in range(self._instances):
                share = batch.filter(pc.equal(owner, instance))
                if share.num_rows:
                    yield instance, share

    def _owners(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the instance of each row. Arrow has no hash kernel, so each distinct value is hashed once in Python;
        the result depends on the value alone and is the same in every batch and process."""
        import pyarrow.compute as pc

        total: pa.Array | None = None
        for name in self._key:
            encoded = batch.column(name).dictionary_encode(null_encoding="encode")
            hashes = pa.array(
                [zlib.crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()], pa.int64()
            )
            column = hashes.take(encoded.indices)
            total = column if total is None else pc.bit_wise_and(pc.add(pc.multiply(total, 31), column), 0xFFFF_FFFF)
        assert total is not None
        return pc.subtract(total, pc.multiply(pc.divide(total, self._instances), self._instances))


class Lanes:
    """All lanes of a node, at the end of a segment."""

    wants_frame = False
    #: rows that are loaded into Python are counted there
    reports_count = True

    def __init__(
        self, node: Node, lanes: Sequence[Lane], router: Router, meter: NodeMeter, segment: Segment | None
    ) -> None:
        """``segment`` takes the rows of a transform."""
        self.node = node
        self.lanes = lanes
        self.segment = segment
        self._router = router
        self._meter = meter

    @property
    def name(self) -> str:
        return self.node.name

    def accept(self, upstream: str, rows: Rows) -> None:
        rows.on_count(self._meter.count_rows_in)
        for batch in rows.batches():
            for lane, share in self._router.split(batch):
                self.lanes[lane].put(share)

    def ports(self) -> Sequence[Port]:
        return self.lanes
