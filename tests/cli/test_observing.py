"""A real `streamling run` with its admin API, and the commands that use it. The process starts a JVM, so one serves all
tests."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cli.conftest import PIPELINE, Project, Result, command_environment, command_line
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.spark

CONTINUOUS = PIPELINE.replace("    mode: {type: bounded}\n", "    mode: {type: continuous, poll_interval: 200ms}\n")
CONFIG = "application_id: shop_v1\nlog_format: json\nadmin_api_port: 0\ncheckpoint_interval_sec: 0.3\n"


@dataclass
class Running:
    project: Project
    process: subprocess.Popen[str]
    url: str

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as response:
            return response.read().decode()

    def tap(self, *args: str) -> Result:
        return self.project.command("tap", *args)

    @property
    def log(self) -> list[dict]:
        return [json.loads(line) for line in (self.project.folder / "err").read_text().splitlines()]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    project = Project(tmp_path_factory.mktemp("observed"))
    project.write("pipeline.yaml", CONTINUOUS)
    project.write("config.yaml", CONFIG)
    with (project.folder / "err").open("w") as err, (project.folder / "out").open("w") as out:
        process = subprocess.Popen(
            command_line("run", "pipeline.yaml"), cwd=project.folder, env=command_environment(), stdout=out, stderr=err,
            text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            found: list[str] = []

            def started() -> bool:
                assert process.poll() is None, (project.folder / "err").read_text()
                found[:] = re.findall(r"admin API: (http://\S+?)\"", (project.folder / "err").read_text())
                return bool(found) and (project.folder / "out").read_text().count("\n") == 2

            eventually(started, 120)
            yield Running(project, process, found[0])
        finally:
            process.terminate()
            process.wait(60)
    assert process.returncode == 0


def test_probes_and_topology_answer(running):
    assert json.loads(running.get("/healthz")) == {"status": "ok"}
    topology = json.loads(running.get("/admin/topology"))
    assert topology["application_id"] == "shop_v1"
    assert [node["name"] for node in topology["nodes"]] == ["orders", "large", "screen"]
    assert topology["memory"]["jvm_mb"] > 50


def test_metrics_are_counted_from_the_first_request_on(running):
    assert 'streamling_output_rows_total{id="screen"' in running.get("/metrics")


def test_the_log_is_served_and_carries_pipeline_node_and_epoch(running):
    (first, *_) = [json.loads(line) for line in running.get("/admin/logs?tail=500").splitlines()]
    assert "is running (shop_v1)" in first["message"]
    assert next(line for line in running.log if "is running" in line["message"])["pipeline"] == "shop_v1"


def test_rows_of_a_node_found_by_the_file(running):
    result = running.tap("pipeline.yaml", "large", "--limit", "2")
    assert result.code == 0, result.err
    assert [json.loads(line)["item"] for line in result.out.splitlines()] == ["rice", "tea"]


def test_rows_of_a_node_found_by_the_name_of_the_run_and_filtered(running):
    result = running.tap("shop_v1", "large", "--filter", "price > 4", "--limit", "1", "--json")
    assert result.code == 0, result.err
    assert [json.loads(line)["item"] for line in result.out.splitlines()] == ["rice"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("pipeline.yaml", "nothing"), "there is no node 'nothing' in this pipeline"),
        (("pipeline.yaml", "screen"), "'screen' has no output"),
        (("pipeline.yaml", "large", "--filter", "price >"), "the filter cannot be read"),
        (("pipeline.yaml", "large", "--filter", "cost > 1"), "the column 'cost', which the rows do not have"),
        (("other.yaml", "large"), "no running pipeline 'other.yaml' has been found"),
        (("x", "large", "--url", "http://127.0.0.1:1"), "the admin API at http://127.0.0.1:1 cannot be reached"),
    ],
)
def test_what_is_wrong_is_one_sentence(running, args, message):
    result = running.tap(*args)
    assert result.code in (1, 78)
    assert message in result.err
    assert "Traceback" not in result.err


def test_in_preview_tolerant_mode_a_failed_run_stays_and_shows_its_error(tmp_path):
    project = Project(tmp_path)
    project.write("pipeline.yaml", PIPELINE.replace("price * 2", "CAST(raise_error('no price') AS DOUBLE)"))
    project.write("config.yaml", f"{CONFIG}preview_tolerant_mode: true\n")
    with (tmp_path / "err").open("w") as err:
        process = subprocess.Popen(
            command_line("run", "pipeline.yaml"), cwd=tmp_path, env=command_environment(), stderr=err,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        )  # fmt: skip
    try:
        text = tmp_path / "err"
        eventually(lambda: "admin API: " in text.read_text() and "no price" in text.read_text(), 120)
        (url,) = re.findall(r"admin API: (http://\S+?)\"", text.read_text())
        with urllib.request.urlopen(f"{url}/admin/error", timeout=30) as response:
            error = json.loads(response.read())
        assert error.keys() == {"node", "message", "internal", "retriable", "remedy"}
        assert error["node"] == "large"
        assert "no price" in error["message"]
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait(60)
    assert process.returncode == 1
