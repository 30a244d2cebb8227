"""Drives a file source like the engine: reads, stores positions, stops and restarts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.file import reader, staging
from streamling.connectors.file.source import FileSource, FileSourceOptions
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.sources import Position, SourceBatch, SparkRead

NAME = "orders"


class StoredState:
    """A state backend: JSON text by key."""

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        self.texts = {key: json.dumps(value) for key, value in (entries or {}).items()}

    def get(self, key: str) -> Any | None:
        return json.loads(self.texts[key]) if key in self.texts else None

    def get_prefix(self, prefix: str) -> Mapping[str, Any]:
        return {key: json.loads(text) for key, text in self.texts.items() if key.startswith(prefix)}

    def put(self, key: str, value: Any) -> None:
        self.texts[key] = json.dumps(value)

    def remove(self, key: str) -> None:
        self.texts.pop(key, None)

    def store(self, position: Position) -> None:
        for key, value in position.items():
            if value is None:
                self.remove(key)
            else:
                self.put(key, value)


def make_source(
    path: Path | str, state: StoredState | None = None, *, bounded: bool = True, **fields: Any
) -> FileSource:
    mode = {"type": "bounded"} if bounded else {"type": "continuous", "poll_interval": "10ms"}
    config = fields.pop("config", AppConfig())
    fields = {"type": "file", "path": str(path), "format": "csv", "mode": mode, **fields}
    context = NodeContext(
        name=NAME,
        options=FileSourceOptions.model_validate(fields),
        config=config,
        state=state or StoredState(),
        metrics=NoopMetrics(),
    )
    return FileSource(context)


def split_files(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """Divide files that are larger than ``size`` bytes, which would otherwise be small ones."""
    monkeypatch.setattr(reader, "SPLIT_BYTES", size)
    monkeypatch.setattr(staging, "split_file", partial(staging.split_file, size=size))


class Run:
    """A source from ``open`` until the test closes it."""

    def __init__(self, spark: Any, source: FileSource) -> None:
        self.spark = spark
        self.source = source
        self.source.open()
        self.position = source.restore()

    def step(self) -> pa.Table | None:
        """Return the next batch's rows, or None if there is nothing to read now."""
        batch = self.source.read(self.position)
        if not isinstance(batch, SourceBatch):
            return None
        rows = batch.rows
        if isinstance(rows, SparkRead):
            rows = rows.frame(self.spark).toArrow()
        self.position = batch.position
        return rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])

    def rows(self) -> list[dict[str, Any]]:
        """Return all rows that are available now."""
        found: list[dict[str, Any]] = []
        while (table := self.step()) is not None:
            found += table.to_pylist()
        return found


def read_all(spark: Any, path: Path | str, state: StoredState | None = None, **fields: Any) -> list[dict[str, Any]]:
    """Return everything a source reads until there is no more; its position is stored in ``state``."""
    state = state or StoredState()
    run = Run(spark, make_source(path, state, **fields))
    rows = run.rows()
    state.store(run.position)
    run.source.close()
    return rows


def rows_or_error(spark: Any, source: FileSource) -> list[dict[str, Any]] | StreamlingError:
    """Return what a user sees of a source: its rows, or its error. Closes the source."""
    try:
        return Run(spark, source).rows()
    except StreamlingError as error:
        return error
    except Exception as error:
        return source.translate_error(error) or StreamlingError.wrap(error, "not explained")
    finally:
        source.close()
