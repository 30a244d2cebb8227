"""Spark's physical plans of the nodes of a pipeline, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from streamling.engine.planning.description import Segment
from streamling.engine.planning.empty_inputs import NodeInputs, Plan, empty_frame
from streamling.engine.planning.placement import placement_for
from streamling.engine.planning.planned import Analysis
from streamling.pipeline.model import Node
from streamling.plugins.operators import Operator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def spark_plans(analysis: Analysis, segments: Sequence[Segment], master: str) -> dict[int, dict[str, str]]:
    """Spark's physical plan of every node whose rows leave a Spark segment, by segment and node."""
    plans: dict[int, dict[str, str]] = {}
    for segment in segments:
        if segment.kind == "spark":
            plans[segment.number] = dict(_segment_plans(analysis, segment, master))
    return {number: plan for number, plan in plans.items() if plan}


def _segment_plans(analysis: Analysis, segment: Segment, master: str) -> Iterator[tuple[str, str]]:
    placement, plans = placement_for(master), _SegmentFrames(analysis)
    for name in segment.nodes:
        planned = analysis.nodes[name]
        operator = placement.place(planned)
        operator.analyse(NodeInputs(plans, planned.node, operator))
        if name not in plans.frames:
            continue  # a sink: Spark writes what the plan above it computes
        followers = {node.name for node in analysis.pipeline.consumers(name) if node.kind.has_output}
        if not followers or not followers <= set(segment.nodes):
            plan = plans.frames[name]._jdf.queryExecution().executedPlan().toString()
            yield name, _readable(plan, plans.names_by_column)


class _SegmentFrames:
    """The plans of the nodes of a segment, each over the plans of its upstreams."""

    def __init__(self, analysis: Analysis) -> None:
        self.frames: dict[str, DataFrame] = {}
        #: first column of a DataFrame that represents a node outside of the segment → name of the node
        self.names_by_column: dict[str, str] = {}
        self._analysis = analysis

    def apply(self, node: Node, operator: Operator[Any], plan: Plan) -> DataFrame:
        session = self._analysis.session
        for upstream in node.upstreams:
            if upstream not in self.frames:
                self.frames[upstream] = _rows_of(session, self._analysis.nodes[upstream].schema)
                self.names_by_column[_first_column(self.frames[upstream])] = upstream
        self.frames[node.name] = plan(session, {upstream: self.frames[upstream] for upstream in node.upstreams})
        return self.frames[node.name]


def _rows_of(session: SparkSession, schema: pa.Schema) -> DataFrame:
    """Rows that Spark cannot look into: a plan over an empty relation would be optimized away."""
    from pyspark.sql import DataFrame

    empty = empty_frame(session, schema)._jdf
    return DataFrame(session._jsparkSession.createDataFrame(empty.toJavaRDD(), empty.schema()), session)


def _first_column(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().analyzed().output().head().toString())


def _readable(plan: str, inputs: Mapping[str, str]) -> str:
    """The plan without column numbers, and with the names of the nodes that it reads."""

    def begin(found: re.Match[str]) -> str:
        return f"rows of {inputs.get(found[1], 'the upstream')}"

    named = re.sub(r"Scan ExistingRDD\[([^,\]]+)[^\]]*\]", begin, plan)
    return re.sub(r"#\d+L?", "", named).rstrip()
