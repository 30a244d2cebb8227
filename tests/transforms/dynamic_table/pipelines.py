"""A source with the batches of a test, and a way to run pipelines over it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from streamling.connectors.memory import collected_rows
from streamling.engine.run.run import PipelineRun
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SourceOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sources import END, Source, SourceBatch
from streamling.plugins.state_backend import StateBackend
from tests.harness.pipelines import finish, start_run

Batches = Sequence[Sequence[Mapping[str, Any]]]

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.string()), ("w", pa.string()), ("tags", pa.list_(pa.string()))])


class GivenOptions(SourceOptions):
    pass


class BatchListSource(Source[GivenOptions]):
    """Reads the batches of the test, one after the other."""

    Options = GivenOptions
    bounded = True
    given: Mapping[str, Batches]

    def schema(self) -> pa.Schema:
        return SCHEMA

    def read(self, position):
        at = position.get(self.context.name, 0)
        batches = self.given[self.context.name]
        if at == len(batches):
            return END
        rows = pa.Table.from_pylist(list(batches[at]), schema=SCHEMA)
        return SourceBatch(rows, {self.context.name: at + 1})


def registry_of(given: Mapping[str, Batches]) -> Registry:
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "given", type("Given", (BatchListSource,), {"given": given}))
    return registry


def run_pipeline(
    spark: Any, text: str, given: Mapping[str, Batches], *, state: StateBackend | None = None, **settings: Any
) -> PipelineRun:
    """Run a pipeline over the given batches to its end."""
    config = AppConfig(**{"checkpoint_interval_sec": 60, **settings})
    run = start_run(text, registry_of(given), spark=spark, config=config, state=state)
    finish(run, seconds=240)
    return run


def ids(run: PipelineRun, sink: str = "out") -> list[int]:
    return collected_rows(run, sink).column("id").to_pylist()


def rows(*values: str | None, first: int = 1) -> list[dict[str, Any]]:
    """Return rows with ascending ids, one for each value."""
    return [{"id": first + number, "v": value} for number, value in enumerate(values)]
