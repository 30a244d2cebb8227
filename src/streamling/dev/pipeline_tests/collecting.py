"""The sinks of a case: collect rows instead of writing them; the checks of the sink that they replace still run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamling.plugins.operators import EmptyInputs, Operator
from streamling.plugins.sinks import Sink

if TYPE_CHECKING:
    from streamling.plugins.context import NodeContext
    from streamling.sql.problems import SqlProblem


class Collected:
    """The rows that sinks have received, by node. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._schemas: dict[str, pa.Schema] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {}

    def declare(self, node: str, schema: pa.Schema) -> None:
        with self._lock:
            self._schemas[node] = schema

    def add(self, node: str, batch: pa.RecordBatch) -> None:
        with self._lock:
            self._batches.setdefault(node, []).append(batch)

    def table(self, node: str) -> pa.Table | None:
        """Return the rows of a sink; None if it has not been created."""
        with self._lock:
            schema, batches = self._schemas.get(node), list(self._batches.get(node, ()))
        if schema is None:
            return None
        if all(batch.schema.names == schema.names and batch.schema.types == schema.types for batch in batches):
            # code that builds a new batch loses the metadata of its fields, which says what a wide number means
            declared = [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches]
            return pa.Table.from_batches(declared, schema)
        tables = [pa.Table.from_batches([batch]) for batch in batches]  # a source may add columns while it runs
        return pa.concat_tables(tables, promote_options="permissive")


class CollectingSink(Sink[Any]):
    """Creates the sink that it replaces, whose constructor checks the columns, but does not open it."""

    #: set by `collecting_sink`
    replaced: ClassVar[type[Operator[Any]]]
    collected: ClassVar[Collected]

    def __init__(self, context: NodeContext[Any]) -> None:
        super().__init__(context)
        self._replaced = self.replaced(context)
        self.collected.declare(context.name, context.input_schema)

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        return self._replaced.static_check(inputs)

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        return self._replaced.analyse(inputs)

    def write(self, batch: pa.RecordBatch) -> None:
        self.collected.add(self.context.name, batch)


def collecting_sink(replaced: type[Operator[Any]], collected: Collected) -> type[CollectingSink]:
    """Return the class that replaces ``replaced`` in one case."""
    members = {"Options": replaced.Options, "replaced": replaced, "collected": collected}
    return type("CollectingSink", (CollectingSink,), members)
