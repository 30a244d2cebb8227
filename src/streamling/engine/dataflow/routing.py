"""Which instance of a node gets which rows (`parallelism`)."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import pyarrow as pa


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
        """Instance per row. Arrow has no hash kernel, so each distinct value is hashed once in Python; the
        result depends on the value alone and is the same in every batch and process."""
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
