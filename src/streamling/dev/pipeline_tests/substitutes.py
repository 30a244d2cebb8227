"""The operators of one case: what connects to other systems is replaced, everything else is what a real run uses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from streamling.connectors.http.options import HttpCall
from streamling.connectors.http.webhook import WebhookSink
from streamling.connectors.memory import MemorySinkOptions
from streamling.dev.pipeline_tests.clock import fix_time
from streamling.dev.pipeline_tests.collecting import Collected, collecting_sink
from streamling.dev.pipeline_tests.endpoints import Endpoints, LocalEndpoint
from streamling.dev.pipeline_tests.load import LoadedCase
from streamling.dev.pipeline_tests.source import case_source
from streamling.pipeline.model import Node, NodeKind, Pipeline
from streamling.plugins.operators import Operator
from streamling.plugins.registry import OperatorType
from streamling.plugins.sources import AnySource
from streamling.transforms.dynamic_table.store import MemoryStore
from streamling.transforms.dynamic_table.transform import DynamicTableTransform, DynamicTableTransformOptions
from streamling.transforms.sql.transform import SqlTransform

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext


@dataclass
class Substitutes:
    """Creates the operators of a case and holds what they have received."""

    case: LoadedCase
    now: datetime | None
    endpoints: dict[str, LocalEndpoint] = field(default_factory=dict)
    collected: Collected = field(default_factory=Collected)
    #: values of dynamic tables at the end
    tables: dict[str, set[str]] = field(default_factory=dict)
    #: the session in which the time is fixed
    fixed_sessions: list[SparkSession] = field(default_factory=list)

    def operator(self, type_: OperatorType) -> type[Operator[Any]]:
        """Return the class that runs nodes of ``type_``."""
        found = type_.operator
        if issubclass(found, AnySource):
            return case_source(found, self.case)
        if issubclass(found, WebhookSink):
            return type("CaseWebhook", (_CaseWebhook,), {"collected": self.collected})
        if type_.kind is NodeKind.SINK:
            return collecting_sink(found, self.collected)
        if issubclass(found, DynamicTableTransform):
            members = {"contents": self.case.case.tables, "results": self.tables}
            return type("CaseTable", (_CaseTable,), members)
        if issubclass(found, SqlTransform) and self.now is not None:
            return type("CaseSql", (_CaseSql,), {"now": self.now, "fixed": self.fixed_sessions})
        return found

    def pipeline(self, pipeline: Pipeline, server: Endpoints) -> Pipeline:
        """Return ``pipeline`` with local endpoints and tables, and with a sink for each node whose rows are
        expected."""
        nodes = [self._node(node, server) for node in pipeline]
        wanted = [name for name in self.case.case.expect if pipeline[name].kind.has_output]
        return replace(pipeline, nodes=(*nodes, *(_tap(name) for name in wanted)))

    def _node(self, node: Node, server: Endpoints) -> Node:
        options = node.options
        if isinstance(options, HttpCall):
            answers = self.case.case.http.get(node.name, [])
            endpoint = LocalEndpoint(answers, answers_all=node.kind is NodeKind.SINK)
            self.endpoints[node.name] = endpoint
            return replace(node, options=options.model_copy(update={"url": server.add(endpoint)}))
        if isinstance(options, DynamicTableTransformOptions):
            return replace(node, options=options.model_copy(update={"backend_type": "InMemory"}))
        return node

    def rows(self, pipeline: Pipeline, node: str) -> pa.Table | None:
        """Return what ``node`` has emitted, or received if it is a sink."""
        return self.collected.table(_tap_name(node) if pipeline[node].kind.has_output else node)


def _tap_name(node: str) -> str:
    return f"rows of {node}"


def _tap(node: str) -> Node:
    options = MemorySinkOptions.model_validate({"type": "memory", "from": node})
    return Node(_tap_name(node), NodeKind.SINK, options, (node,))


class _CaseSql(SqlTransform):
    """SQL in which the time is fixed."""

    now: ClassVar[datetime]
    fixed: ClassVar[list[SparkSession]]

    def apply(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        if spark not in self.fixed:
            self.fixed.append(spark)
            fix_time(spark, self.now)
        return super().apply(spark, inputs)


class _CaseTable(DynamicTableTransform):
    """A dynamic table with the contents of the test file."""

    contents: ClassVar[Mapping[str, list[str]]]
    results: ClassVar[dict[str, set[str]]]

    def __init__(self, context: NodeContext[DynamicTableTransformOptions]) -> None:
        super().__init__(context)
        self._store.add(self.contents.get(context.name, ()))

    def close(self) -> None:
        assert isinstance(self._store, MemoryStore)
        self.results[self.context.name] = self._store.values
        super().close()


class _CaseWebhook(WebhookSink):
    """A webhook that sends its requests to the stubbed endpoint."""

    collected: ClassVar[Collected]

    def __init__(self, context: NodeContext[Any]) -> None:
        super().__init__(context)
        self.collected.declare(context.name, context.input_schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self.collected.add(self.context.name, batch)
        super().write(batch)
