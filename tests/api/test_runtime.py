"""The Python API: pipelines started by a program, on the session of the test run."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import streamling
from streamling import InvalidPipeline, MemoryInput, Runtime, StreamlingError
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.spark

TEXT = """\
sources:
  orders: {type: memory, primary_key: id}
transforms:
  large:
    type: sql
    primary_key: id
    sql: SELECT id, price * 2 AS price FROM orders WHERE price > 1
sinks:
  out: {type: memory, from: large, exclude_gs_op: true}
"""
ROWS = [{"id": 1, "price": 5}, {"id": 2, "price": 1}, {"id": 3, "price": 7}]
EXPECTED = [{"id": 1, "price": 10}, {"id": 3, "price": 14}]
FILE = """\
sources:
  orders: {type: file, path: "orders/*.csv", format: csv, mode: {type: bounded}, primary_key: id}
sinks:
  screen: {type: print, from: orders}
"""


@pytest.fixture
def rt(runtime: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    monkeypatch.chdir(tmp_path)
    with Runtime(spark=runtime, settings={"checkpoint_interval_sec": 0.2}) as started:
        yield started


def rows(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def csv(folder: Path, name: str, *ids: int) -> None:
    (folder / "orders").mkdir(exist_ok=True)
    (folder / "orders" / name).write_text("id\n" + "".join(f"{id}\n" for id in ids))


# ── definitions ──────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_of_the_program_become_a_table(rt: Runtime) -> None:
    run = rt.start(TEXT, inputs={"orders": ROWS})
    run.wait(60)
    assert rows(run.table("out")) == EXPECTED
    assert (run.state, run.rows, run.status.rows_out) == ("finished", {"out": 2}, 2)


def test_a_definition_may_be_a_mapping(rt: Runtime) -> None:
    definition = {
        "sources": {"orders": {"type": "memory", "primary_key": "id"}},
        "sinks": {"out": {"type": "memory", "from": "orders", "exclude_gs_op": True}},
    }
    run = rt.start(definition, inputs={"orders": pa.table({"id": [1], "text": ["no"]})})
    run.wait(60)
    assert run.table("out").to_pylist() == [{"id": 1, "text": "no"}]


def test_sources_and_sinks_of_a_file_can_be_replaced_by_memory(rt: Runtime, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(FILE)
    run = rt.start(Path("pipeline.yaml"), inputs={"orders": pa.record_batch({"id": [7]})}, capture=["screen"])
    run.wait(60)
    assert run.table("screen").column("id").to_pylist() == [7]
    assert run.name == "pipeline"


def test_a_file_continues_from_its_stored_position(rt: Runtime, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(FILE)
    csv(tmp_path, "a.csv", 1, 2)
    first = rt.start("pipeline.yaml", capture=["screen"])
    first.wait(60)
    csv(tmp_path, "b.csv", 3)
    second = rt.start("pipeline.yaml", capture=["screen"])
    second.wait(60)
    assert [run.table("screen").column("id").to_pylist() for run in (first, second)] == [[1, 2], [3]]


def test_a_definition_without_a_name_starts_anew_and_leaves_no_files(rt: Runtime, tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", 1)
    for _ in range(2):
        run = rt.start(FILE, capture=["screen"])
        run.wait(60)
        assert run.table("screen").num_rows == 1
    assert not (tmp_path / "state.db").exists()


def test_a_name_in_the_text_is_an_identity(rt: Runtime, tmp_path: Path) -> None:
    csv(tmp_path, "a.csv", 1)
    counts = []
    for _ in range(2):
        run = rt.start(f"name: shop\n{FILE}", capture=["screen"])
        run.wait(60)
        counts.append(run.table("screen").num_rows)
    assert (run.name, counts) == ("shop", [1, 0])


# ── live pipelines ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_open_input_takes_rows_while_the_pipeline_runs(rt: Runtime) -> None:
    orders = MemoryInput(schema=pa.schema({"id": pa.int64(), "price": pa.int64()}))
    run = rt.start(TEXT, inputs={"orders": orders})
    assert run.table("out").num_rows == 0
    orders.write(ROWS[:1])
    assert run.wait_for_rows("out", 1).num_rows == 1
    orders.write(pa.table({"price": [7], "id": [3]}))  # any order of columns
    assert rows(run.wait_for_rows("out", 2)) == EXPECTED
    assert run.state == "running"
    orders.close()
    run.wait(60)
    assert run.state == "finished"


def test_rows_are_freed_when_they_are_durable_and_a_later_run_continues(rt: Runtime) -> None:
    orders = MemoryInput(ROWS)
    run = rt.start(TEXT, inputs={"orders": orders})
    run.wait_for_rows("out", 2)
    run.checkpoint()
    eventually(lambda: orders.first == 3)
    run.stop()
    orders.write([{"id": 9, "price": 9}])
    orders.close()
    second = rt.start(TEXT, inputs={"orders": orders})
    second.wait(60)
    assert rows(second.table("out")) == [{"id": 9, "price": 18}]


def test_pipelines_run_side_by_side(rt: Runtime) -> None:
    inputs = [MemoryInput(ROWS) for _ in range(3)]
    runs = [rt.start(TEXT, inputs={"orders": each}) for each in inputs]
    for run in runs:
        assert rows(run.wait_for_rows("out", 2)) == EXPECTED
    assert rt.runs == runs
    assert len({run.name for run in runs}) == 3
    runs[0].stop()
    assert rt.runs == runs[1:]


def test_the_end_of_the_block_stops_all_pipelines(runtime: Any) -> None:
    with Runtime(spark=runtime) as rt:
        run = rt.start(TEXT, inputs={"orders": MemoryInput(ROWS)})
    assert run.state == "finished"
    assert runtime.alive()  # it belongs to the caller
    with Runtime(spark=runtime) as rt, rt.start(TEXT, inputs={"orders": MemoryInput(ROWS)}) as run:
        pass
    assert run.state == "finished"


def test_rows_of_a_print_sink_appear_in_a_notebook_cell(rt: Runtime) -> None:
    """Its output is a text stream without a buffer."""
    with contextlib.redirect_stdout(io.StringIO()) as cell:
        run = rt.start(TEXT.replace("type: memory, from: large, exclude_gs_op: true", "type: print, from: large"),
                       inputs={"orders": ROWS})  # fmt: skip
        run.wait(60)
    printed = [json.loads(line) for line in cell.getvalue().splitlines()]
    assert sorted(row["id"] for row in printed) == [1, 3]


# ── settings ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_settings_of_a_pipeline_are_merged_with_those_of_the_runtime(runtime: Any, tmp_path: Path) -> None:
    settings = {"state_backend": {"sqlite": {"database_path": str(tmp_path / "mine.db")}}, "application_id": "mine"}
    with Runtime(spark=runtime, settings=settings) as rt:
        run = rt.start(TEXT, inputs={"orders": ROWS}, settings={"state_backend": {"sqlite": {"state_table_name": "x"}}})
        run.wait(60)
    assert run.name == "mine"
    assert (tmp_path / "mine.db").exists()


def test_an_invalid_setting_is_an_error(rt: Runtime) -> None:
    with pytest.raises(InvalidPipeline, match="checkpoint_interval_sec is 'soon', expected a number above 0"):
        rt.start(TEXT, inputs={"orders": ROWS}, settings={"checkpoint_interval_sec": "soon"})


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_errors_of_a_definition_are_reported(rt: Runtime) -> None:
    with pytest.raises(InvalidPipeline) as raised:
        rt.start(TEXT.replace("from: large", "from: lage").replace("type: sql", "type: sqll"))
    assert [problem.location for problem in raised.value.problems] == ["definition:5:11", "definition:9:29"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": {"order": ROWS}}, "the pipeline has no source 'order'; its sources: orders"),
        ({"inputs": {"orders": ROWS}, "capture": ["in"]}, "the pipeline has no sink 'in'; its sinks: out"),
        ({"inputs": {"orders": []}}, "an input without rows needs a schema"),
        ({"inputs": {"orders": [1, 2]}}, "these rows cannot be used, expected Arrow data or one mapping per row"),
        ({}, "memory source 'orders': no rows were passed to this source"),
    ],
)
def test_wrong_arguments_are_named(rt: Runtime, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(StreamlingError, match=message):
        rt.start(TEXT, **arguments)


def test_rows_with_other_columns_are_refused() -> None:
    orders = MemoryInput(ROWS)
    with pytest.raises(StreamlingError, match="expected the columns id, price"):
        orders.write(pa.table({"id": [1]}))
    orders.close()
    with pytest.raises(StreamlingError, match="the input is closed"):
        orders.write(ROWS)


def test_only_memory_sinks_have_a_table(rt: Runtime) -> None:
    run = rt.start(TEXT.replace("type: memory, from: large, exclude_gs_op: true", "type: blackhole, from: large"),
                   inputs={"orders": ROWS})  # fmt: skip
    with pytest.raises(StreamlingError, match="'out' is not a memory sink; the pipeline has no memory sink"):
        run.table("out")
    run.wait(60)


BAD = [{"id": 1, "price": 5, "text": "x"}]
FAILING = TEXT.replace("price * 2 AS price", "CAST(text AS BIGINT) AS price")


def test_wait_raises_the_failure_of_the_pipeline(rt: Runtime) -> None:
    run = rt.start(FAILING, inputs={"orders": BAD})
    with pytest.raises(StreamlingError, match="sql transform 'large'"):
        run.wait(60)
    assert run.state == "failed"
    assert run.failure is not None
    with pytest.raises(StreamlingError, match="sql transform 'large'"):
        run.wait_for_rows("out", 1)


def test_a_failure_that_nobody_saw_is_raised_at_the_end_of_the_block(runtime: Any) -> None:
    def start_and_leave() -> None:
        with Runtime(spark=runtime) as rt:
            run = rt.start(FAILING, inputs={"orders": BAD})
            eventually(lambda: run.state == "failed")

    with pytest.raises(StreamlingError, match="sql transform 'large'"):
        start_and_leave()


def test_waiting_has_a_limit(rt: Runtime) -> None:
    run = rt.start(TEXT, inputs={"orders": MemoryInput(ROWS)})
    with pytest.raises(TimeoutError, match=r"is still running after 0\.1 s"):
        run.wait(0.1)
    run.wait_for_rows("out", 2)
    with pytest.raises(TimeoutError, match="has 2 rows, expected 3"):
        run.wait_for_rows("out", 3, timeout=0.1)


# ── the package ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_package_exports_the_api_without_importing_it() -> None:
    script = (
        "import sys, streamling\n"
        "assert [name for name in sys.modules if name.startswith('streamling.')] == ['streamling.lazy_pandas']\n"
        "assert all(getattr(streamling, name) is not None for name in streamling.__all__)\n"
        "assert not hasattr(streamling, 'nothing')\n"
        "assert set(streamling.__all__) <= set(dir(streamling))\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    assert streamling.Runtime is Runtime
