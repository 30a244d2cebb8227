"""Drives a sink directly: rows in, table contents out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from streamling.pipeline.config import AppConfig
from streamling.pipeline.options import NodeOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.plugins.sinks import Sink

#: a row as a test writes it: operation, then values
Row = tuple[Any, ...]


class TableDriver(ABC):
    """Writes to the table ``t`` of a database."""

    @abstractmethod
    def sink(self, schema: pa.Schema, **more: Any) -> Sink[Any]:
        """A sink that is not open."""

    @contextmanager
    def opened(self, schema: pa.Schema, **more: Any) -> Iterator[Any]:
        sink = self.sink(schema, **more)
        sink.open()
        try:
            yield sink
        finally:
            sink.close()

    def write(self, *batches: pa.RecordBatch, **more: Any) -> None:
        """Write all batches with one sink."""
        with self.opened(batches[0].schema, **more) as sink:
            for each in batches:
                sink.write(each)
            sink.flush()


def sink_context(
    options: NodeOptions, config: AppConfig, schema: pa.Schema, key: Sequence[str], /, **more: Any
) -> NodeContext[Any]:
    """The context of a sink outside of a pipeline; ``more`` replaces its fields."""
    fields = {
        "options": options,
        "config": config,
        "input_schema": schema,
        "primary_key": tuple(key),
        "state": UnavailableState("none here"),
        "metrics": NoopMetrics(),
    }
    return NodeContext(**{**fields, **more})


def batch(*rows: Row, names: Sequence[str] = ("id", "v"), types: Sequence[pa.DataType] | None = None) -> pa.RecordBatch:
    """Build rows of (operation, values…)."""
    types = types or [pa.int64(), *[pa.string()] * (len(names) - 1)]
    schema = pa.schema([*zip(names, types, strict=True), ("_gs_op", pa.string())])
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(values, type_) for values, type_ in zip(columns[1:], types, strict=True)]
    return pa.record_batch([*arrays, pa.array(columns[0], pa.string())], schema=schema)
