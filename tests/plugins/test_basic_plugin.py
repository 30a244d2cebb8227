"""The example plugins keep the contract, and their pipelines run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.harness import NAME, PATIENCE
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import load_pipeline
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.testing import PipelineHarness, SinkContract, SourceContract, TransformContract
from tests.harness.commands import QUICK_JVM
from tests.harness.pipelines import finish, start_run
from tests.harness.plugins import load_plugins

FILE = Path(__file__).parents[2] / "examples" / "plugins" / "basic_plugin.py"


def example(kind: NodeKind, id: str) -> type[Operator[Any]]:
    found = load_plugins(Registry.builtin(), FILE).get(kind, id)
    assert found is not None
    assert found.operator is not None
    return found.operator


RandomSource: Any = example(NodeKind.SOURCE, "basic_plugin.random_source")
FilterTransform: Any = example(NodeKind.TRANSFORM, "basic_plugin.filter_transform")
PrintSink: Any = example(NodeKind.SINK, "print_sink")


def random_rows(**options: Any) -> list[dict[str, Any]]:
    bench = PipelineHarness(RandomSource, {"batch_sleep_ms": 0, "stop_when_exhausted": True, "seed": 7, **options})
    bench.finish()
    return bench.written_rows


class TestRandomSource(SourceContract):
    operator = RandomSource

    def options(self) -> dict[str, Any]:
        return {"max_rows": 25, "record_batch_size": 4, "batch_sleep_ms": 1, "stop_when_exhausted": True, "seed": 7}

    def expected(self) -> list[dict[str, Any]]:
        return random_rows(max_rows=25, record_batch_size=4)


class TestEndlessRandomSource(TestRandomSource):
    def options(self) -> dict[str, Any]:
        return {**super().options(), "stop_when_exhausted": False}


class TestFilterTransform(TransformContract):
    operator = FilterTransform

    def options(self) -> dict[str, Any]:
        return {"_gs_op": "i", "name": "blue"}

    def input(self) -> pa.RecordBatch:
        colours = ["blue", "red", "blue", "green"] * 5
        operations = ["i", "i", "d", "i"] * 5
        return pa.record_batch({"id": list(range(20)), "name": colours, "_gs_op": operations})

    def expected(self) -> list[dict[str, Any]]:
        return [{"id": id, "name": "blue", "_gs_op": "i"} for id in range(0, 20, 4)]


class TestPrintSink(SinkContract):
    operator = PrintSink

    @pytest.fixture(autouse=True)
    def _output(self, capsys) -> None:
        self._capsys = capsys
        self._printed: list[dict[str, Any]] = []

    def durable(self) -> list[dict[str, Any]]:
        for line in self._capsys.readouterr().out.splitlines():
            id, name, operation = line.split()
            self._printed.append({"id": int(id), "name": name, "_gs_op": operation})
        return list(self._printed)


def test_the_last_rows_of_a_batch_are_an_update_and_a_delete():
    rows = random_rows(max_rows=20, record_batch_size=10)
    assert [row["_gs_op"] for row in rows] == (["i"] * 8 + ["u", "d"]) * 2


def test_updates_and_deletes_are_about_rows_that_came_before():
    rows = random_rows(max_rows=10)
    keys = [row["alphanumeric_field"] for row in rows]
    assert keys[-2] in keys[:-2]
    assert keys[-1] in keys[:-2]


def test_without_a_seed_every_first_run_gives_other_rows():
    assert random_rows(seed=None) != random_rows(seed=None)


def test_defaults_are_those_of_the_original():
    bench = PipelineHarness(RandomSource, {})
    options: Any = bench.pipeline(bench.registry())[NAME].options
    assert (options.max_rows, options.record_batch_size, options.batch_sleep_ms) == (100, 10, 1000)
    assert options.stop_when_exhausted is False


def test_a_filter_on_a_column_that_is_not_text_is_rejected_with_the_choice():
    rows = pa.record_batch({"id": [1], "name": ["a"], "_gs_op": ["i"]})
    with pytest.raises(InvalidPipeline) as caught:
        PipelineHarness(FilterTransform, {"id": 1}).prepare([rows])
    (problem,) = caught.value.problems
    assert f"'{NAME}': there is no text column 'id' to compare with" in problem.message
    assert problem.remedy == "use one of: name, _gs_op"


def test_batch_mode_prints_a_table(capsys):
    rows = pa.record_batch({"id": [1, 20], "name": ["a", None], "_gs_op": ["i", "d"]})
    PipelineHarness(PrintSink, {"mode": "batch"}).finish([rows])
    assert capsys.readouterr().out.splitlines() == [
        "+----+------+--------+",
        "| id | name | _gs_op |",
        "+----+------+--------+",
        "| 1  | a    | i      |",
        "| 20 | None | d      |",
        "+----+------+--------+",
    ]


def test_an_unknown_mode_is_refused_with_the_known_ones():
    bench = PipelineHarness(PrintSink, {"mode": "fancy"})
    with pytest.raises(InvalidPipeline, match=r"'row'.*'batch'"):
        bench.prepare([pa.record_batch({"id": [1]})])


def test_every_example_pipeline_parses(examples):
    registry = load_plugins(Registry.builtin(), examples)
    for file in examples.glob("*.yaml"):
        if ".test." not in file.name:
            assert load_pipeline(file, registry=registry).nodes


def test_options_arrive_typed_and_free_fields_as_text(examples):
    pipeline = load_pipeline(examples / "pipeline.yaml", registry=load_plugins(Registry.builtin(), FILE))
    assert pipeline["plugin_data"].options.max_rows == 50
    assert pipeline["plugin_data"].options.stop_when_exhausted is True
    assert pipeline["updated_plugin_data"].options.model_extra == {"_gs_op": "i"}


def test_the_plugin_pipeline_of_the_documentation_runs_unchanged(capsys):
    """It never ends by itself: two batches of eight inserts each are enough."""
    seed = Path(__file__).parents[1] / "seeds" / "plugin_pipeline.yaml"
    registry = load_plugins(Registry.builtin(), FILE)
    config = AppConfig(num_records_before_stop=16)
    finish(start_run(load_pipeline(seed, registry=registry), registry, config=config))
    assert sum(line.endswith("| i      |") for line in capsys.readouterr().out.splitlines()) == 16


@pytest.mark.spark
@pytest.mark.slow
def test_the_plugin_pipeline_runs_through_the_real_command(examples, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "streamling", "run", str(examples / "pipeline.yaml")],
        cwd=tmp_path,
        env={**os.environ, **QUICK_JVM, "STREAMLING__PLUGIN__PATH": str(FILE)},
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
    )
    assert done.returncode == 0, done.stderr
    rows = [line for line in done.stdout.splitlines() if line.endswith("| i      |")]
    assert len(rows) == 40, done.stdout
    assert "| d " not in done.stdout


@pytest.mark.spark
def test_plugin_rows_pass_through_sql(examples, spark, tmp_path):
    text = (examples / "with_sql.yaml").read_text().replace("type: print\n", "type: memory\n")
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    registry = load_plugins(Registry.builtin(), FILE)
    run = start_run(load_pipeline(file, registry=registry), registry, spark=spark)
    finish(run)
    table = collected_rows(run, "out")
    assert table.column_names == ["num_field", "alphanumeric_field", "_gs_op"]
    assert table.num_rows > 10
    assert min(table.column("num_field").to_pylist()) > 100


def test_a_wrong_schema_is_reported_with_the_node_and_both_schemas():
    class Lying(RandomSource):
        def schema(self):
            return pa.schema([("num_field", pa.int64()), ("alphanumeric_field", pa.string()), ("_gs_op", pa.string())])

        def read(self, position):
            self_schema = RandomSource.schema(self)
            step = super().read(position)
            return type(step)(step.rows.cast(self_schema), step.position)

    with pytest.raises(StreamlingError) as caught:
        PipelineHarness(Lying, {"max_rows": 1, "stop_when_exhausted": True}).finish()
    assert "'under_test': returned columns (num_field int32, " in str(caught.value)
    assert "declared (num_field int64, " in str(caught.value)
