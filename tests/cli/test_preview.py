"""`preview` and the preview server, as real commands: each starts a JVM."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import PIPELINE, Project, command_environment, command_line
from tests.harness.pipelines import eventually
from tests.harness.script import wait_until_ended
from tests.serve.processes import children

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("previewed")


@pytest.fixture(scope="module")
def tables(folder: Path) -> str:
    """The output of a preview of a pipeline whose sink cannot be reached."""
    project = Project(folder)
    sinks = "sinks:\n  out: {type: webhook, from: large, url: 'http://127.0.0.1:1/'}\n"
    project.write("pipeline.yaml", PIPELINE.partition("sinks:")[0] + sinks)
    result = project.command("preview", "pipeline.yaml", "--rows", "2", "--seconds", "60")
    assert result.code == 0, result.err
    return result.out


def test_rows_of_every_node_are_shown_as_tables(tables):
    assert "orders (file source): 2 rows" in tables
    assert "large (sql transform): 2 rows" in tables
    assert '"tea"' in tables
    assert "rice" in tables


def test_sinks_are_not_shown_and_not_used(tables):
    assert "out" not in tables.split()


def test_the_state_is_not_touched(tables, folder):
    assert not list(folder.glob("state.db*"))


def test_rows_as_json_and_of_one_node(project):
    result = project.command("preview", "pipeline.yaml", "--json", "--node", "large", "--seconds", "60")
    assert result.code == 0, result.err
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert {row["topology_node_key"] for row in rows} == {"large"}
    assert [row["data"]["item"] for row in rows] == ["tea", "rice"]


def test_a_preview_that_runs_out_of_time_says_so_and_counts_from_the_first_rows(project):
    text = PIPELINE.replace("{type: bounded}", "{type: continuous, poll_interval: 100ms}")
    project.write("pipeline.yaml", text)
    result = project.command("preview", "pipeline.yaml", "--seconds", "2", "--rows", "3")
    assert result.code == 0, result.err
    assert "orders (file source): 3 rows" in result.out
    assert "the time is up: large has 2 of 3 rows 2 s after the first; a larger --seconds waits longer" in result.err


def test_an_unknown_node_is_wrong_usage(project):
    result = project.command("preview", "pipeline.yaml", "--node", "nothing")
    assert result.code == 2
    assert "there is no node 'nothing'" in result.err


def test_an_invalid_pipeline_is_reported_as_usual(project):
    project.write("pipeline.yaml", PIPELINE.replace("FROM orders", "FROM ordes"))
    result = project.command("preview", "pipeline.yaml")
    assert result.code == 78
    assert "pipeline.yaml:12" in result.err


# ── the server ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Project]]:
    project = Project(tmp_path_factory.mktemp("server"))
    project.write("config.yaml", "admin_api_port: 0\n")
    with (project.folder / "err").open("w") as err:
        process = subprocess.Popen(
            command_line("preview-server"), cwd=project.folder, env=command_environment(), stderr=err,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        text = project.folder / "err"
        eventually(lambda: "preview server: " in text.read_text(), 60)
        (url,) = re.findall(r"preview server: (\S+)", text.read_text())
        yield url, project
    finally:
        process.terminate()
        process.wait(60)


def test_a_preview_over_http(server):
    url, project = server
    text = PIPELINE.replace("path: orders", f"path: {project.folder / 'orders'}")
    request = urllib.request.Request(f"{url}?duration_seconds=60", text.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=120) as response:
        events = response.read().decode()
    rows = [json.loads(line[5:]) for line in events.splitlines() if line.startswith('data: {"topology')]
    assert {row["topology_node_key"] for row in rows} == {"orders", "large"}
    assert {row["data"]["item"] for row in rows} == {"tea", "jam", "rice"}
    assert events.endswith('event: end\ndata: {"reason": "preview ended"}\n\n')


@pytest.mark.parametrize(
    ("text", "query", "message"),
    [
        (PIPELINE.replace("FROM orders", "FROM ordes"), "", "ordes"),
        ("nothing", "", "is not a mapping"),
        (PIPELINE, "?duration_seconds=601", "duration_seconds is '601'"),
    ],
)
def test_a_wrong_request_is_answered_with_its_errors(server, text, query, message):
    url, _ = server
    request = urllib.request.Request(url + query, text.encode(), method="POST")
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=60)
    assert error.value.code == 422
    assert message in error.value.read().decode()


def test_a_preview_ends_with_the_process_that_started_it(tmp_path):
    project = Project(tmp_path)
    project.write("config.yaml", "admin_api_port: 0\n")
    text = PIPELINE.replace("{type: bounded}", "{type: continuous}").replace("path: orders", f"path: {tmp_path}/orders")
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            command_line("preview-server"), cwd=tmp_path, env=command_environment(), stderr=err,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        eventually(lambda: "preview server: " in (tmp_path / "err").read_text(), 60)
        (url,) = re.findall(r"preview server: (\S+)", (tmp_path / "err").read_text())
        with urllib.request.urlopen(urllib.request.Request(url, text.encode(), method="POST"), timeout=120) as response:
            assert response.readline() == b"event: nodes\n"
            (worker,) = children(process.pid, "streamling.serve.worker")
            process.kill()
            process.wait()
        wait_until_ended(worker)
    finally:
        process.kill()
        process.wait()
