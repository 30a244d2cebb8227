"""Generate sources outside of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from streamling.connectors.generate.source import GenerateSource, GenerateSourceOptions
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.sources import SourceBatch
from tests.connectors.file.driver import StoredState

NAME = "orders"


def make_source(columns: Mapping[str, Any], **fields: Any) -> GenerateSource:
    options = GenerateSourceOptions.model_validate({"type": "generate", "columns": columns, **fields})
    return GenerateSource(
        NodeContext(name=NAME, options=options, config=AppConfig(), state=StoredState(), metrics=NoopMetrics())
    )


def generate(columns: Mapping[str, Any], rows: int, *, first: int = 0, **fields: Any) -> pa.Table:
    """The rows from number ``first`` on."""
    source = make_source(columns, count=first + rows, **fields)
    batches, position = [], {NAME: first}
    while isinstance(step := source.read(position), SourceBatch):
        assert isinstance(step.rows, pa.RecordBatch)
        batches.append(step.rows)
        position = dict(step.position)
    return pa.Table.from_batches(batches, schema=source.schema())


def values(column: Any, rows: int = 1000, **fields: Any) -> list[Any]:
    """The values of a single column."""
    found: list[Any] = generate({"value": column}, rows, **fields)["value"].to_pylist()
    return found
