"""The base of all contracts: the hooks, and the tests that apply to every operator."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from streamling.dev.contracts.call_log import Call
from streamling.dev.contracts.harness import NAME, PipelineHarness
from streamling.engine.planning.executor_work import on_executor
from streamling.errors import StreamlingError
from streamling.pipeline.plugin_fields import typed_fields
from streamling.plugins.operators import Operator
from streamling.types.row_kind import OP_COLUMN

#: maximum number of rows of each kind shown in a difference
_SHOWN = 5
_DEFAULT_SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), (OP_COLUMN, pa.string())])


class OperatorContract:
    """Hooks of every contract. All but ``operator`` have a default."""

    #: the class under test
    operator: ClassVar[type[Operator[Any]]]
    #: a Spark session, for operators that need one; set it from a fixture
    session: Any = None

    def options(self) -> Mapping[str, Any]:
        """Return the node's fields as in the pipeline file, without ``type`` and ``from``."""
        return {}

    def external_state(self) -> object:
        """Return the state of external systems in comparable form: files, tables. Describing a node must not change
        it."""
        return None

    def harness(self) -> PipelineHarness:
        """Return a fresh state for successive runs of the operator."""
        return PipelineHarness(self.operator, self.options(), session=self.session)

    # ── tests of every kind ──────────────────────────────────────────────────────────────────────────────────

    def input_batches(self) -> Sequence[pa.RecordBatch]:
        """Return the batches of the operator's input; empty for a source."""
        return ()

    def test_a_dry_run_changes_nothing(self) -> None:
        harness = self.harness()
        before = self.external_state()
        harness.prepare(self.input_batches())
        assert not harness.call_log.calls, (
            f"called although no rows were about to flow: {_names(harness.call_log.calls)}"
        )
        assert not harness.position, f"the constructor or a schema method stored {harness.position}"
        assert self.external_state() == before, "the constructor or a schema method changed an external system"

    def test_options_may_be_written_as_text(self) -> None:
        harness = self.harness()
        typed = typed_fields(harness.kind)
        own = {key: str(value) if _is_number(value) else value for key, value in self.options().items()}
        node = {key: value for key, value in self.options().items() if key in typed}
        options = {key: value for key, value in own.items() if key not in typed}
        as_text = PipelineHarness(self.operator, {**node, "options": options}, session=self.session)
        registry = harness.registry(self.input_batches())
        expected = harness.pipeline(registry)[NAME].options
        found = as_text.pipeline(as_text.registry(self.input_batches()))[NAME].options
        assert found.model_dump() == expected.model_dump(), "the same options in quotes mean something else"

    def test_a_failing_open_stops_the_pipeline_and_nothing_else_is_called(self) -> None:
        harness = self.harness()
        harness.call_log.fail("open")
        self.check_names_node(harness.failure(self.input_batches()))
        assert [call.method for call in harness.call_log.calls] == ["open"], _names(harness.call_log.calls)
        assert not harness.position, "a position was stored although nothing ran"

    def test_errors_keep_their_flags_and_name_the_node(self) -> None:
        """Check that the retriable and user-facing flags of a plugin's error reach the user."""
        for mark in ("mark_retriable", "mark_user_facing"):
            harness = self.harness()
            marked = getattr(StreamlingError("failed on purpose"), mark)()
            harness.call_log.fail("open", error=marked)
            error = harness.failure(self.input_batches())
            assert str(error).endswith(f"'{NAME}': failed on purpose"), str(error)
            assert (error.retriable, error.internal) == (mark == "mark_retriable", mark != "mark_user_facing")

    def test_an_instance_is_never_called_by_two_threads_at_once(self) -> None:
        harness = self.harness()
        self.run_once(harness)
        assert not harness.call_log.overlaps, f"called during another call: {_names(harness.call_log.overlaps)}"

    # ── for the contracts of the kinds ───────────────────────────────────────────────────────────────────────

    def run_once(self, harness: PipelineHarness) -> None:
        """Run once from beginning to end."""
        harness.finish(self.input_batches())

    def check_names_node(self, error: StreamlingError) -> None:
        """Check that an error names its node and shows the cause."""
        assert f"'{NAME}'" in str(error), f"the error does not name the node: {error}"
        assert any("on purpose" in part for part in (str(error), *error.causes())), "the cause is lost"

    def check_lifecycle(self, harness: PipelineHarness, *, runs: int = 1) -> None:
        """Check that each instance was opened first and closed last, exactly once."""
        lives = [[call.method for call in calls] for calls in harness.call_log.instances()]
        assert len(lives) >= runs, f"{runs} runs made only {len(lives)} instances"
        for life in lives:
            assert life[0] == "open", f"the first call was {life[0]}: {life}"
            assert life[-1] == "close", f"the last call was {life[-1]}: {life}"
            assert life.count("open") == life.count("close") == 1, f"open and close must be called exactly once: {life}"


def sample_rows(first: int = 0, count: int = 5) -> pa.RecordBatch:
    """Return rows for operators that accept any columns: ``id``, ``name``, ``_gs_op``."""
    ids = range(first, first + count)
    columns = [pa.array(ids, pa.int64()), pa.array([f"n{id}" for id in ids]), pa.array(["i"] * count)]
    return pa.record_batch(columns, schema=_DEFAULT_SCHEMA)


def with_operation(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows as they arrive: a row without an operation is an insert."""
    return [{**row, OP_COLUMN: row.get(OP_COLUMN, "i")} for row in rows]


def add_operation(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch as the engine passes it on: rows without an operation are inserts."""
    if OP_COLUMN in batch.schema.names:
        return batch
    return batch.append_column(pa.field(OP_COLUMN, pa.string()), pa.array(["i"] * batch.num_rows, pa.string()))


def have_same_columns(found: pa.Schema, declared: pa.Schema) -> bool:
    """Return whether names and types are equal; nullability is ignored."""
    return list(found.names) == list(declared.names) and list(found.types) == list(declared.types)


def describe_difference(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> str:
    """Return a short description of the difference between the rows; empty if they are equal and in order."""
    lost, extra = missing(expected, found), missing(found, expected)
    lines = [f"{len(found)} rows arrived, {len(expected)} were expected"]
    for what, rows in (("missing", lost), ("not expected", extra)):
        if rows:
            shown = "".join(f"\n    {dict(row)}" for row in rows[:_SHOWN])
            lines.append(f"  {what}: {len(rows)}{shown}" + ("\n    …" if len(rows) > _SHOWN else ""))
    if not lost and not extra:
        pairs = enumerate(zip(expected, found, strict=True))
        wrong = next(((at, want, got) for at, (want, got) in pairs if dict(want) != dict(got)), None)
        if wrong is None:
            return ""
        lines.append(f"  in another order; row {wrong[0]} is {dict(wrong[2])}, expected {dict(wrong[1])}")
    return "\n".join(lines)


def missing(expected: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows of ``expected`` that are missing in ``found``, counting duplicates."""
    left = [repr(sorted(row.items())) for row in found]
    lost = []
    for row in expected:
        text = repr(sorted(row.items()))
        if text in left:
            left.remove(text)
        else:
            lost.append(row)
    return lost


def _names(calls: Sequence[Call]) -> str:
    return ", ".join(call.method for call in calls)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


# ── an operator as a Spark executor runs it: pickled, then called with batches ───────────────────────────────────


def run_on_executor(
    harness: PipelineHarness, operator: type[Operator[Any]], batches: list[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """Return the result of a partition of ``batches`` there; ``operator`` is the class as its author wrote it."""
    from pyspark import cloudpickle

    run = harness.prepare(batches)
    assert run.analysis is not None
    planned = run.analysis.nodes[NAME]
    function = pickle.loads(cloudpickle.dumps(on_executor(planned, operator)))  # type: ignore[no-untyped-call]
    made: Iterable[pa.RecordBatch] = function(map(add_operation, batches))
    return list(made)
