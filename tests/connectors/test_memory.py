"""The memory sink: gives a test access to the rows of a running pipeline."""

from typing import Any

import pyarrow as pa

from streamling.connectors.memory import MemorySink, collected_rows
from streamling.dev.contracts.harness import NAME
from streamling.testing import PipelineHarness


def given(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64()), "_gs_op": ["u"] * len(ids)})


def table(*batches: pa.RecordBatch, **options: Any) -> pa.Table:
    bench = PipelineHarness(MemorySink, options)
    bench.finish(batches)
    assert bench.run is not None
    return collected_rows(bench.run, NAME)


def test_rows_are_kept_in_order_with_their_operation():
    assert table(given(1, 2), given(3)).to_pylist() == [{"id": id, "_gs_op": "u"} for id in (1, 2, 3)]


def test_exclude_gs_op_drops_the_operation():
    assert table(given(1), exclude_gs_op=True).to_pylist() == [{"id": 1}]


def test_without_rows_the_table_still_has_the_columns():
    assert table(given()).schema.names == ["id", "_gs_op"]
    assert table(given(), exclude_gs_op=True).schema.names == ["id"]


def test_the_table_holds_the_rows_of_all_instances():
    found = table(*[given(first, first + 1) for first in range(0, 20, 2)], parallelism=3)
    assert sorted(found.column("id").to_pylist()) == list(range(20))


def test_batches_may_differ_in_their_columns():
    wider = pa.record_batch({"id": [2], "extra": ["x"], "_gs_op": ["i"]})
    bench = PipelineHarness(MemorySink, {})
    bench.finish([given(1)])
    assert bench.run is not None
    (sink,) = bench.run.graph.operators[NAME]
    sink.write(wider)
    assert sink.table().to_pylist() == [
        {"id": 1, "_gs_op": "u", "extra": None},
        {"id": 2, "_gs_op": "i", "extra": "x"},
    ]


def test_rows_are_visible_while_the_pipeline_runs():
    bench = PipelineHarness(MemorySink, {})
    seen: list[int] = []
    bench.on_read = lambda number: seen.append(collected_rows(bench.run, NAME).num_rows if bench.run else 0)
    bench.finish([given(n) for n in range(50)])
    assert seen == sorted(seen)
    assert seen[-1] > 0
