"""Job mode, as a user sees it: the pipeline ends with its sources, and a finished job has nothing left to do."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Project
from tests.paths import ROOT

PIPELINE = """\
sources:
  orders: {type: file, path: orders, format: csv, mode: {type: bounded}, primary_key: id}
  events:
    type: basic_plugin.random_source
    max_rows: 40
    batch_sleep_ms: 0
    stop_when_exhausted: STOPS
    primary_key: num_field
transforms:
  large: {type: sql, primary_key: id, sql: "SELECT id, item FROM orders WHERE price > 1"}
sinks:
  screen: {type: print, from: large}
  table: {type: print_sink, mode: batch, from: events}
  nothing: {type: blackhole, from: events}
"""
JOB = {
    "STREAMLING__JOB_MODE": "true",
    "STREAMLING__PLUGIN__PATH": str(ROOT / "examples" / "plugins" / "basic_plugin.py"),
}


def messages(text: str) -> list[str]:
    """The lines of the log, without the time."""
    return re.findall(r"^[\d:.]+ (.*)", text, re.MULTILINE)


@pytest.fixture
def job(tmp_path) -> Project:
    made = Project(tmp_path)
    made.write("pipeline.yaml", PIPELINE.replace("STOPS", "true"))
    return made


@pytest.mark.spark
def test_a_job_ends_with_its_sources_and_a_finished_one_does_nothing(job):
    first = job.command("run", "pipeline.yaml", **JOB)
    assert first.code == 0, first.err
    assert messages(first.err) == [
        "INFO  pipeline.yaml is running (pipeline)",
        "INFO  finished; rows: 2 to screen, 40 to table, 40 to nothing",
    ]
    again = job.command("run", "pipeline.yaml", **JOB)
    assert again.code == 0, again.err
    nothing_new = "nothing new to read, earlier runs have read everything"
    reset = "To read it again: streamling state reset pipeline.yaml --node"
    assert sorted(messages(again.err)[:-1]) == [
        f"INFO  basic_plugin.random_source source 'events': {nothing_new}. {reset} events",
        f"INFO  file source 'orders': {nothing_new}. {reset} orders",
        "INFO  pipeline.yaml is running (pipeline)",
    ]
    assert messages(again.err)[-1] == "INFO  finished; rows: 0 to screen, 0 to table, 0 to nothing"
    assert again.out == ""


def test_a_plugin_that_does_not_end_is_refused(job):
    job.write("pipeline.yaml", PIPELINE.replace("STOPS", "false"))
    refused = job.command("validate", "pipeline.yaml", "--static", **JOB)
    assert refused.code == 78, refused.err
    assert refused.err == (
        "error: pipeline.yaml:3:3: basic_plugin.random_source source 'events' cannot run in job mode, which supports "
        "hybrid sources, file sources in bounded mode, generate sources with a count and bounded plugin sources\n"
        "  help: use one of these, or turn 'job_mode' off\n"
    )
