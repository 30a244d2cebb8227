"""Side outputs of plugins: named in a pipeline, or attached to every source by the configuration."""

from __future__ import annotations

import json

import pytest

from streamling.connectors.memory import collected_rows
from streamling.engine.launch.launcher import Launcher
from streamling.engine.state.memory import MemoryState
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import load_config
from tests.harness.pipelines import finish

FILE = '''
import json

from pydantic import Field

from streamling.plugins import SideOutput, TransformOptions, plugin


class AuditOptions(TransformOptions):
    file: str = Field(description="Where to note what passed.")
    limit: int = 3


@plugin("acme.audit")
class Audit(SideOutput[AuditOptions]):
    """Notes how many rows have passed, once that is final."""

    Options = AuditOptions

    def open(self):
        self._seen = {}

    def before_emit(self, rows, after):
        self._seen[after + 1] = self._seen.get(after + 1, 0) + rows.num_rows

    def marker(self, epoch):
        return {f"audit:{self.context.name}": sum(self._seen.values())}

    def finalized(self, epoch):
        with open(self.options.file, "a") as file:
            print(json.dumps([self.context.name, sum(self._seen.values())]), file=file)
'''
PIPELINE = """
sources:
  rows: {type: file, path: data, format: csv, mode: {type: bounded}, primary_key: id}
transforms:
  half: {type: sql, primary_key: id, sql: SELECT * FROM rows WHERE id % 2 = 0}
sinks:
  out: {type: memory, from: half}
"""


@pytest.fixture
def launcher(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "audit.py").write_text(FILE)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(10)))

    def load(text: str = PIPELINE, **env: str):
        (tmp_path / "pipeline.yaml").write_text(text)
        settings = {f"STREAMLING__PLUGIN__{name}": value for name, value in env.items()}
        loaded = Launcher.of(
            load_config("config", cwd=tmp_path, env={"STREAMLING__PLUGIN__PATH": "audit.py", **settings})
        )
        return loaded, loaded.pipeline("pipeline.yaml")

    return load


def noted(tmp_path) -> list:
    return [json.loads(line) for line in (tmp_path / "audit.log").read_text().splitlines()]


def run(launcher, pipeline, spark) -> MemoryState:
    state = MemoryState()
    running = launcher.run(pipeline, state)
    running.analyse(spark)
    running.start()
    finish(running)
    assert collected_rows(running, "out").num_rows == 5
    return state


@pytest.mark.spark
def test_the_configuration_attaches_it_to_every_source(launcher, spark, tmp_path):
    loaded, pipeline = launcher(SIDE_OUTPUT_IDS="acme.audit", SIDE_OUTPUT_OPTIONS='{"file": "audit.log"}')
    state = run(loaded, pipeline, spark)
    assert noted(tmp_path)[-1] == ["rows.acme.audit", 10]
    assert state.get("audit:rows.acme.audit") == 10


@pytest.mark.spark
def test_a_pipeline_names_it_where_it_is_to_look(launcher, spark, tmp_path):
    text = PIPELINE.replace("sinks:", "  watch: {type: acme.audit, from: half, file: audit.log}\nsinks:")
    loaded, pipeline = launcher(text)
    run(loaded, pipeline, spark)
    assert noted(tmp_path)[-1] == ["watch", 5]


def test_options_are_keyed_by_the_id(launcher):
    options = '{"limit": 5, "acme.audit": {"file": "own.log"}}'
    _, pipeline = launcher(SIDE_OUTPUT_IDS="acme.audit", SIDE_OUTPUT_OPTIONS=options)
    found = pipeline["rows.acme.audit"].options
    assert (found.file, found.limit) == ("own.log", 5)


def test_nothing_reads_from_it(launcher):
    text = PIPELINE.replace("sinks:", "  watch: {type: acme.audit, from: half, file: audit.log}\nsinks:")
    with pytest.raises(InvalidPipeline, match="watch"):
        launcher(text.replace("from: half}", "from: watch}"))


def test_an_unknown_id_is_reported_with_the_known_ones(launcher):
    with pytest.raises(StreamlingError, match=r"plugin.side_output_ids: there is no side output 'acme.odit'") as caught:
        launcher(SIDE_OUTPUT_IDS="acme.odit")
    assert caught.value.remedy == "did you mean 'acme.audit'?"


def test_invalid_options_are_reported(launcher):
    with pytest.raises(StreamlingError, match=r"plugin.side_output_options: limit of 'acme.audit'"):
        launcher(SIDE_OUTPUT_IDS="acme.audit", SIDE_OUTPUT_OPTIONS='{"file": "x", "limit": "many"}')
