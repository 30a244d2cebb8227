"""Plugins that run as several instances: how many, which rows each gets, and what they share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins import ByColumns, Partitioning, RoundRobin, Transform, TransformOptions
from streamling.plugins.registry import Registry
from streamling.testing import PipelineHarness
from tests.harness.pipelines import finish, start_run
from tests.harness.plugins import load_plugins

FILE = Path(__file__).parents[2] / "examples" / "plugins" / "partitioned_plugin.py"

PIPELINE = """
sources:
  numbers: {type: basic_plugin.partitioned_source, rows: 250, preferred_partitions: 3, primary_key: id}
transforms:
  seen: {type: basic_plugin.partitioned_transform, from: numbers, parallelism: 2, primary_key: id}
sinks:
  files: {type: basic_plugin.partitioned_file_sink, from: seen, output_dir: OUTPUT, parallelism: 2}
"""


def run(text: str, output: Path, state: MemoryState | None = None, **settings: Any) -> PipelineRun:
    registry = load_plugins(Registry.builtin(), FILE)
    running = start_run(text.replace("OUTPUT", str(output)), registry, config=AppConfig(**settings), state=state)
    finish(running)
    return running


def written(output: Path) -> dict[str, list[dict[str, str]]]:
    files = {}
    for file in sorted(output.glob("*.csv")):
        with file.open() as lines:
            files[file.stem] = list(csv.DictReader(lines))
    return files


def test_source_transform_and_sink_run_one_instance_per_stream(tmp_path):
    run(PIPELINE, tmp_path)
    files = written(tmp_path)
    rows = [row for rows in files.values() for row in rows]
    assert list(files) == ["files-0", "files-1"]
    assert all(files.values())
    assert {row["source_partition"] for row in rows} == {"0", "1", "2"}
    assert {row["transform_partition"] for row in rows} == {"0", "1"}
    expected = sorted(partition * 1_000_000 + number for partition in range(3) for number in range(250))
    assert sorted(int(row["id"]) for row in rows) == expected


def test_each_instance_of_a_source_keeps_its_own_position(tmp_path):
    state = MemoryState()
    run(PIPELINE, tmp_path, state)
    assert state.get_prefix("numbers") == {"numbers:0": 250, "numbers:1": 250, "numbers:2": 250}
    run(PIPELINE, tmp_path, state)
    assert sum(map(len, written(tmp_path).values())) == 750


def test_parallelism_of_the_file_wins_over_what_the_plugin_prefers(tmp_path):
    run(PIPELINE.replace("preferred_partitions: 3", "preferred_partitions: 3, parallelism: 1"), tmp_path)
    rows = [row for rows in written(tmp_path).values() for row in rows]
    assert {row["source_partition"] for row in rows} == {"0"}


def test_a_record_limit_counts_over_all_instances(tmp_path):
    running = run(PIPELINE, tmp_path, num_records_before_stop=120)
    assert running.rows_written() == {"files": 120}
    assert sum(map(len, written(tmp_path).values())) == 120


def test_more_instances_than_the_plugin_allows_are_refused():
    with pytest.raises(InvalidPipeline) as caught:
        run(PIPELINE.replace("from: numbers, parallelism: 2", "from: numbers, parallelism: 17"), Path("unused"))
    (problem,) = caught.value.problems
    assert problem.message.endswith("transform 'seen': parallelism is 17, expected 1 to 16")


@pytest.mark.parametrize(
    ("partitions", "asked", "count"),
    [
        (Partitioning(), None, 1),
        (Partitioning(), 5, 5),
        (Partitioning(minimum=2), None, 2),
        (Partitioning(minimum=2, preferred=4), None, 4),
        (Partitioning(maximum=8, preferred=4), 8, 8),
    ],
)
def test_how_many(partitions, asked, count):
    assert partitions.count(asked) == count


@pytest.mark.parametrize(
    ("partitions", "asked", "range"),
    [
        (Partitioning(minimum=2), 1, "at least 2"),
        (Partitioning(minimum=2, maximum=3), 4, "2 to 3"),
        (Partitioning(maximum=1), 2, "expected 1"),
    ],
)
def test_how_many_not(partitions, asked, range):
    with pytest.raises(StreamlingError, match=range):
        partitions.count(asked)


class Placed(Transform[TransformOptions]):
    """Notes which instance got which rows."""

    Options = TransformOptions
    routing: Any
    got: list[tuple[int, list[str]]]

    @classmethod
    def partitioning(cls, options):
        return Partitioning(preferred=2, routing=cls.routing)

    def output_schema(self):
        return self.context.input_schema

    def process(self, batch):
        self.got.append((self.context.instance, batch.column("colour").to_pylist()))
        return batch


COLOURS = pa.record_batch({"id": [1, 2, 3, 4], "colour": ["red", "blue", "red", "blue"], "_gs_op": ["i"] * 4})


def placed(routing) -> list[tuple[int, list[str]]]:
    kind = type("Placed", (Placed,), {"routing": routing, "got": []})
    PipelineHarness(kind, {}).finish([COLOURS, COLOURS])
    return kind.got


def test_rows_that_are_equal_in_the_columns_go_to_one_instance():
    got = placed(ByColumns(("colour",)))
    owners = {(colour, instance) for instance, colours in got for colour in colours}
    assert len(owners) == 2
    assert sum(len(colours) for _, colours in got) == 8


def test_batches_take_turns():
    assert sorted(placed(RoundRobin())) == [(0, COLOURS["colour"].to_pylist()), (1, COLOURS["colour"].to_pylist())]


def test_routing_by_a_column_that_is_not_in_the_input_is_rejected_before_the_start():
    kind = type("Placed", (Placed,), {"routing": ByColumns(("shape",)), "got": []})
    with pytest.raises(InvalidPipeline, match="routed by the column 'shape', which is not in its input"):
        PipelineHarness(kind, {}).prepare([COLOURS])
