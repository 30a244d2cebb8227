"""The real command on real pipelines. Each process here starts a JVM, so one process serves several tests."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from streamling.engine.state.ownership import lock_state
from streamling.engine.state.sqlite import SqliteState
from tests.cli.conftest import PIPELINE, Project, Result, command_environment, command_line

pytestmark = pytest.mark.spark

CONTINUOUS = PIPELINE.replace("{type: bounded}", "{type: continuous, poll_interval: 100ms}")
FAILING = PIPELINE.replace("price * 2 AS price", "id / (id - 3) AS price")


def _stored(project: Project, pipeline: str = "pipeline") -> dict:
    with SqliteState(pipeline, project.folder / "state.db") as state:
        return state.items()


# ── bounded: to the end, and again ───────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, Result]:
    project = Project(tmp_path_factory.mktemp("finished"))
    return project, project.command("pipeline.yaml")


def test_a_bounded_pipeline_finishes_with_0(finished):
    _, result = finished
    assert result.code == 0, result.err


def test_stdout_has_only_rows(finished):
    _, result = finished
    assert [json.loads(line) for line in result.out.splitlines()] == [
        {"id": 1, "item": "tea", "price": 3.0, "_gs_op": "i"},
        {"id": 3, "item": "rice", "price": 5.0, "_gs_op": "i"},
    ]


def test_stderr_has_only_our_log_lines(finished):
    _, result = finished
    lines = result.err.splitlines()
    assert "pipeline.yaml is running (pipeline)" in lines[0]
    assert "finished; rows: 2 to screen" in lines[-1]
    assert all(line[13:17] == "INFO" for line in lines)


def test_the_position_is_stored(finished):
    project, _ = finished
    assert list(_stored(project)) == ["orders:bounded_progress"]


@pytest.fixture(scope="module")
def resumed(finished) -> tuple[Project, list[dict[str, str]]]:
    """The same pipeline again: the file is named in a configuration that also sets JSON logs, and the state is under
    the default name of former versions. The log lines."""
    project, _ = finished
    with SqliteState("local_app_v1", project.folder / "state.db") as state:
        state.put_many({**_stored(project), "other:bounded_progress": 1})
    with SqliteState("pipeline", project.folder / "state.db") as state:
        state.clear()
    project.write("again.yaml", "pipeline_definition_location: pipeline.yaml\nlog_format: json\n")
    result = project.command("run", "--config", "again")
    assert (result.code, result.out) == (0, "")
    return project, [json.loads(line) for line in result.err.splitlines()]


def test_run_with_the_file_from_the_configuration_resumes(resumed):
    project, lines = resumed
    assert {line["level"] for line in lines} == {"INFO"}
    assert (
        "file source 'orders': nothing new to read, earlier runs have read everything. "
        f"To read it again: streamling state reset {project.folder}/pipeline.yaml --node orders"
    ) in [line["message"] for line in lines]


def test_state_under_the_former_default_name_is_adopted(resumed):
    project, lines = resumed
    moved = "the state of this pipeline moved from 'local_app_v1' to 'pipeline' (entries: 1)"
    assert any(moved in line["message"] for line in lines)
    assert list(_stored(project)) == ["orders:bounded_progress"]
    with SqliteState("local_app_v1", project.folder / "state.db") as state:
        assert list(state.items()) == ["other:bounded_progress"]


def test_only_one_process_at_a_time_holds_the_state(finished):
    project, _ = finished
    with lock_state(project.folder / "state.db", "pipeline"):
        result = project.command("pipeline.yaml")
    assert (result.code, result.out) == (1, "")
    assert f"the state of 'pipeline' in {project.folder}/state.db is in use by process {os.getpid()} (" in result.err
    assert "stop that process first" in result.err


# ── without running ──────────────────────────────────────────────────────────────────────────────────────────


def test_validate_of_a_valid_file_prints_the_json_of_the_rust_implementation_and_leaves_nothing_behind(tmp_path):
    project = Project(tmp_path)
    result = project.command("pipeline.yaml", "--validate")
    assert result.code == 0
    assert result.out == '{\n  "success": true,\n  "is_valid": true,\n  "errors": [],\n  "warnings": []\n}\n'
    assert sorted(path.name for path in tmp_path.iterdir()) == ["orders", "pipeline.yaml"]


# ── failing ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def failed(finished) -> tuple[Project, Result]:
    """Another file in the folder of the finished pipeline, which fails in the rows that the other one has read."""
    project, _ = finished
    project.write("another.yaml", FAILING)
    return project, project.command("another.yaml")


def test_a_failure_while_running_is_one_block_with_exit_code_1_and_no_position(failed):
    project, result = failed
    assert result.code == 1
    block = result.err[result.err.index("error:") :]
    assert block.startswith("error: another.yaml:12:27: sql transform 'large': division by zero")
    assert "zero" in block
    assert "Traceback" not in result.err
    assert "\tat " not in result.err
    assert "org.apache.spark" not in result.err
    assert _stored(project, "another") == {}


def test_another_file_in_the_folder_is_another_pipeline(failed):
    _, result = failed
    assert "another.yaml is running (another)" in result.err
    assert "nothing new to read" not in result.err


# ── stopped from outside ─────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _running(project: Project) -> Iterator[subprocess.Popen[str]]:
    """The continuous pipeline, after its first row."""
    project.write("pipeline.yaml", CONTINUOUS)
    with subprocess.Popen(
        command_line("run", "pipeline.yaml"), cwd=project.folder, env=command_environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            first = process.stdout.readline()
            assert first, process.stderr.read()
            assert json.loads(first)["id"] == 1
            yield process
        finally:
            process.kill()


def test_ctrl_c_drains_and_exits_with_0(tmp_path):
    project = Project(tmp_path)
    with _running(project) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        out, err = process.stdout.read(), process.stderr.read()
        process.wait(60)
    assert process.returncode == 0, err
    assert "finished: SIGINT; rows: 2 to screen" in err
    assert json.loads(out)["id"] == 3
    assert any(key.startswith("orders:") for key in _stored(project))


def test_a_closed_stdout_ends_the_pipeline_quietly(tmp_path):
    project = Project(tmp_path)
    with _running(project) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        project.write("orders/b.csv", "id,item,price\n4,salt,9.5\n")
        err = process.stderr.read()
        process.wait(60)
    assert process.returncode == 0, err
    assert "error" not in err.lower()
    assert "Traceback" not in err


def test_the_written_project_runs_and_a_higher_log_level_logs_less(tmp_path):
    project = Project(tmp_path)
    shutil.rmtree(project.folder / "orders")
    (project.folder / "pipeline.yaml").unlink()
    assert project.command("new", "weather").code == 0
    env = {**command_environment(), "STREAMLING__LOG_LEVEL": "error"}
    done = subprocess.run(
        command_line("run", "pipeline.yaml"), cwd=Path(tmp_path, "weather"), env=env,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = sorted(map(json.loads, done.stdout.splitlines()), key=lambda row: row["reading_id"])
    assert [row["fahrenheit"] for row in rows] == [70.9, 71.2, 79.2, 77.9, 79.2]


# ── the end of Spark ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_heap_that_is_too_small_is_reported_with_node_reason_and_help(tmp_path):
    project = Project(tmp_path)
    project.write("pipeline.yaml", PIPELINE.replace("price * 2 AS", "repeat(repeat(item, 1000000), 300) AS"))
    result = project.command("pipeline.yaml")
    assert result.code == 1
    block = result.err[result.err.index("error:") :].splitlines()
    where = "file source 'orders', sql transform 'large'"
    assert block[0] == f"error: {where}: Spark stopped: the JVM ran out of heap"
    assert "java.lang.OutOfMemoryError" in block[1]
    assert "help: raise spark.driver.memory" in block[2]
