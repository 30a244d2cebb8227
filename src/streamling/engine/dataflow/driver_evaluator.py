"""Evaluates a segment in the driver: small batches of a stream, without a Spark job, as far as that is possible.

The plans are made once per stream. A plan contains the decoding of the source and all SQL that follows it as the only
consumer; a sink that Spark writes may add its own part. The stream evaluates the plans over each batch (`Stream.next`).
Rows for such a sink do not leave the JVM, so that many batches follow each other without Python. Other consumers get
the rows as Arrow data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from streamling.engine.dataflow.dead_letters import DeadLetterOutput, rejected_rows, valid_rows
from streamling.engine.dataflow.frame_sink import FrameSinkNode
from streamling.engine.dataflow.meter import NodeMeter
from streamling.engine.dataflow.row_measures import RowMeasures
from streamling.engine.dataflow.rows import Rows
from streamling.engine.dataflow.segment import Consumer, Segment, SegmentNode, SqlNode
from streamling.errors import StreamlingError
from streamling.observe.activity import Edge, passing
from streamling.plugins.streams import LocalPlan, LocalStep, NeedsJob, StepResult, StreamBatch, StreamedSource
from streamling.spark.counting import row_count

#: takes the aggregates of an observation in the plan
RecordCounts = Callable[[Sequence[float | None]], None]


class Target(Protocol):
    """What happens to the rows of one plan."""

    @property
    def step(self) -> LocalStep: ...

    @property
    def rows(self) -> Rows:
        """The rows of the plan, without data: they translate its errors."""

    @property
    def is_limited(self) -> bool:
        """Whether the pipeline ends after a number of these rows."""

    def deliver(self, result: StepResult) -> None:
        """Pass the rows on, or count them if they have been written."""

    def ends(self) -> Iterator[Prefix]:
        """Yield where the driver cannot continue: the rows of these nodes are passed on as Arrow data."""


@dataclass(frozen=True)
class DriverEvaluator:
    """What is evaluated over the small batches of one stream."""

    targets: Sequence[Target]
    #: nodes inside the plans, whose rows are evaluated once more if they are watched
    shown: Sequence[Shown] = ()

    @cached_property
    def steps(self) -> Sequence[LocalStep]:
        return [target.step for target in self.targets]

    @property
    def delivers_each(self) -> bool:
        """Whether something has to be done after each batch."""
        return any(target.is_limited for target in self.targets) or any(node.is_watched for node in self.shown)

    def deliver(self, batch: StreamBatch) -> None:
        """Pass the rows of ``batch`` on."""
        assert batch.results is not None
        for target, result in zip(self.targets, batch.results, strict=False):
            target.deliver(result)
        if batch.failure is not None:
            self._raise(self.targets[batch.failure.step].rows, batch.failure.error)
        for node in self.shown:
            node.show(batch.messages)

    def _raise(self, rows: Rows, error: Exception) -> None:
        def evaluate() -> None:
            raise error

        rows.run(evaluate)

    def ends(self) -> Iterator[Prefix]:
        """Yield where the driver cannot continue."""
        for target in self.targets:
            yield from target.ends()

    def __add__(self, other: DriverEvaluator) -> DriverEvaluator:
        return DriverEvaluator([*self.targets, *other.targets], [*self.shown, *other.shown])


def compile_segment(segment: Segment, source: StreamedSource[Any], rows: Rows) -> DriverEvaluator | NeedsJob:
    """Return the evaluator of as many nodes as possible, if the driver can evaluate the source's own part. ``rows``
    have the plan of the source and no data."""
    if segment.dead_letters is None:
        return _longest(source, Prefix.of_source(rows, segment.root))
    rejected = rejected_rows(rows)
    plan = source.local_plan(rejected.frame())
    valid = _longest(source, Prefix.of_source(valid_rows(rows), segment.root))
    if isinstance(plan, NeedsJob):
        return plan
    if isinstance(valid, NeedsJob):
        return valid
    return DriverEvaluator([_ToDeadLetters(plan, rejected, segment.dead_letters)]) + valid


@dataclass(frozen=True)
class Prefix:
    """The plan from the source to a node of the segment: the rows of the node without data."""

    rows: Rows
    node: SegmentNode
    #: counts the rows of the node; None: nothing is counted inside the plan
    meter: NodeMeter | None
    #: what to do with the observations in the plan, by name
    reports: Mapping[str, RecordCounts] = field(default_factory=dict)
    #: from the source to the node
    edges: tuple[Edge, ...] = ()
    #: those of the nodes before it
    above: tuple[Prefix, ...] = ()

    @classmethod
    def of_source(cls, rows: Rows, root: SegmentNode) -> Prefix:
        """Return the prefix of the source alone. If the source adds its measures itself, they are in its plan."""
        measures = root.meter.measures
        prefix = cls(rows, root, root.meter if root.counting.active else None)
        in_plan = measures is not None and measures.by_source and measures.is_in_plan
        return prefix.reporting(measures) if in_plan else prefix

    def with_node(self, node: SqlNode, *, is_branch: bool = False) -> Prefix:
        """Return the plan with one more node. If ``is_branch``, another plan counts the rows up to here."""
        prefix = self if is_branch else self.measured()
        rows = prefix.rows
        reports = {name: _counting() if is_branch else report for name, report in prefix.reports.items()}
        if self.meter is not None:
            name = f"rows_{len(reports)}"
            report = [node.meter.count_rows_in, *([] if is_branch else [self.meter.count_rows_out])]
            reports[name] = _counting(*report)
            rows = rows.with_frame(rows.frame().observe(name, row_count()))
        meter = None if self.meter is None else node.meter
        edges = (*self.edges, self.node.edge_to(node))
        return Prefix(node.transform(self.node.name, rows), node, meter, reports, edges, (*self.above, self))

    def measured(self) -> Prefix:
        """Return the plan with the measures of its last node: for rows that are not emitted by it."""
        measures = self.node.own_measures
        if measures is None:
            return self
        frame = measures.observe(self.rows.frame())
        return replace(self, rows=self.rows.with_frame(frame)).reporting(measures)

    def reporting(self, measures: RowMeasures | None) -> Prefix:
        """Return the same if its plan contains ``measures``."""
        return self if measures is None else replace(self, reports={**self.reports, measures.name: measures.record})

    @property
    def is_deterministic(self) -> bool:
        """Whether several plans that contain this one compute the same rows."""
        return all(operator.is_deterministic for _, operator in self.rows.lineage)

    def emit(self, batch: pa.RecordBatch) -> None:
        """Pass the rows of the node on."""
        with ExitStack() as path:
            for edge in self.edges:
                path.enter_context(passing(edge))
            self.node.emit(Rows(self.rows.session, batches=[batch], producer=self.rows.producer))

    def report(self, result: StepResult) -> None:
        """Report what the plan has counted."""
        for name, values in result.observed:
            self.reports[name](values)


def _counting(*counters: Callable[[int], None]) -> RecordCounts:
    def report(values: Sequence[float | None]) -> None:
        for count in counters:
            count(int(values[0] or 0))

    return report


def _longest(source: StreamedSource[Any], first: Prefix) -> DriverEvaluator | NeedsJob:
    found: DriverEvaluator | NeedsJob | None = None
    for prefix in reversed(_prefixes(first)):
        last = prefix.node.only_consumer
        found = _to_sink(source, prefix, last) or _to_branches(source, prefix) or _to_arrow(source, prefix)
        if not isinstance(found, NeedsJob):
            return found
    assert found is not None
    return found


def job_reason(source: StreamedSource[Any], prefix: Prefix, node: SqlNode) -> NeedsJob:
    """Return why the driver evaluates ``prefix``, but not the ``node`` that follows it."""
    if (job := node.needs_job) is not None:
        return job
    plan = source.local_plan(prefix.with_node(node).rows.frame())
    if isinstance(plan, NeedsJob):
        return plan
    reason = f"'{prefix.node.name}' has several consumers, which must get the same random values or times"
    return NeedsJob(reason, "leave one consumer")


def _prefixes(prefix: Prefix) -> list[Prefix]:
    """Return the prefix of the source, and those with one, two … of the SQL nodes that follow it."""
    found = [prefix]
    while isinstance(node := found[-1].node.only_consumer, SqlNode) and node.needs_job is None:
        found.append(found[-1].with_node(node))
    return found


def _to_arrow(source: StreamedSource[Any], prefix: Prefix) -> DriverEvaluator | NeedsJob:
    plan = source.local_plan(prefix.rows.frame())
    if isinstance(plan, NeedsJob):
        return plan
    return DriverEvaluator([_ToPython(plan, prefix)], _shown(source, prefix.above))


def _to_sink(source: StreamedSource[Any], prefix: Prefix, consumer: Consumer | None) -> DriverEvaluator | None:
    if not isinstance(consumer, FrameSinkNode):
        return None
    prefix = prefix.measured()
    if (prepared := consumer.prepare_local(prefix.rows)) is None:
        return None
    plan = source.local_plan(prepared.frame())
    if isinstance(plan, NeedsJob):
        return None
    step = LocalStep(plan, consumer.local_writer(prefix.rows.session))
    target = _ToSink(step, prepared, prefix.reporting(consumer.measures), consumer)
    return DriverEvaluator([target], _shown(source, [*prefix.above, prefix]))


def _to_branches(source: StreamedSource[Any], prefix: Prefix) -> DriverEvaluator | None:
    """Give each SQL consumer of a node a plan of its own; all other consumers get the rows of the node."""
    node = prefix.node
    if len(node.consumers) < 2 or node.side_outputs or not prefix.is_deterministic:
        return None
    branches: list[DriverEvaluator] = []
    others: list[Consumer] = []
    for consumer in node.consumers:
        branch: DriverEvaluator | NeedsJob | None = None
        if isinstance(consumer, SqlNode) and consumer.needs_job is None:
            branch = _longest(source, prefix.with_node(consumer, is_branch=True))
        if branch is None or isinstance(branch, NeedsJob):
            others.append(consumer)
        else:
            branches.append(branch)
    rest = _to_arrow(source, replace(prefix, node=node.with_consumers(others))) if branches else None
    return None if rest is None or isinstance(rest, NeedsJob) else sum(branches, rest)


def _shown(source: StreamedSource[Any], prefixes: Sequence[Prefix]) -> list[Shown]:
    return [Shown(source, prefix) for prefix in prefixes]


class Shown:
    """Shows rows of a node that the plan of another one contains."""

    def __init__(self, source: StreamedSource[Any], prefix: Prefix) -> None:
        self._prefix = prefix
        self._plan = cache(lambda: source.local_plan(prefix.rows.frame()))

    @property
    def is_watched(self) -> bool:
        return self._prefix.node.is_watched

    def show(self, messages: Any) -> None:
        """Evaluate the plan once more if somebody watches the node."""
        node, rows = self._prefix.node, self._prefix.rows
        if node.is_watched and not isinstance(plan := self._plan(), NeedsJob):
            with suppress(StreamlingError):  # the rows have been delivered: this must not stop the pipeline
                batch = rows.run(lambda: plan.to_arrow(messages))
                node.show(Rows(rows.session, batches=[batch]))


@dataclass(frozen=True)
class _ToPython:
    """Passes rows on as Arrow data."""

    plan: LocalPlan
    prefix: Prefix
    is_limited: ClassVar[bool] = False

    @property
    def step(self) -> LocalStep:
        return LocalStep(self.plan)

    @property
    def rows(self) -> Rows:
        return self.prefix.rows

    def deliver(self, result: StepResult) -> None:
        _record_elapsed(self.rows, result)
        self.prefix.report(result)
        if result.batch is not None:
            self.prefix.emit(result.batch)

    def ends(self) -> Iterator[Prefix]:
        yield self.prefix


@dataclass(frozen=True)
class _ToSink:
    """Counts the rows of a sink that takes them as they are in the JVM."""

    step: LocalStep
    rows: Rows
    prefix: Prefix
    sink: FrameSinkNode

    @property
    def is_limited(self) -> bool:
        return self.sink.is_limited

    def deliver(self, result: StepResult) -> None:
        _record_elapsed(self.rows, result)
        self.prefix.report(result)
        if result.rows:
            self.sink.written_local(result.rows, result.sent, result.write_seconds)
            self._count(result.rows)
        if result.unwritten is not None:
            self.sink.accept_local(result.unwritten)
            self._count(result.unwritten.count)

    def _count(self, rows: int) -> None:
        if self.prefix.meter is not None:  # the rows that the sink takes are the output of its upstream
            self.prefix.meter.count_rows_out(rows)

    def ends(self) -> Iterator[Prefix]:
        return iter(())


@dataclass(frozen=True)
class _ToDeadLetters:
    """Passes the rejected rows on; another plan over the same messages has the valid ones."""

    plan: LocalPlan
    rows: Rows
    dead_letters: DeadLetterOutput
    is_limited: ClassVar[bool] = False

    @property
    def step(self) -> LocalStep:
        return LocalStep(self.plan)

    def deliver(self, result: StepResult) -> None:
        _record_elapsed(self.rows, result)
        if result.batch is not None:
            self.dead_letters.send_reasons(Rows(self.rows.session, batches=[result.batch]))

    def ends(self) -> Iterator[Prefix]:
        return iter(())


def _record_elapsed(rows: Rows, result: StepResult) -> None:
    if rows.on_elapsed is not None and result.plan_seconds:
        rows.on_elapsed(result.plan_seconds)
