"""Preprocessors of plugin files rewrite the pipeline file that a command reads."""

from __future__ import annotations

import pytest

from streamling.engine.launch.launcher import Launcher
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import load_config

PLUGINS = '''
from streamling.plugins import Preprocessor, StreamlingError, plugin


@plugin("acme.paths")
class Paths(Preprocessor):
    """Puts the data folder of this machine in."""

    def rewrite(self, text):
        if "DATA" not in text:
            raise StreamlingError.user("there is no DATA in the file", remedy="write DATA where the folder belongs")
        return text.replace("DATA", self.options["folder"])


@plugin("acme.again")
class Again(Preprocessor):
    def rewrite(self, text):
        return text.replace("/data", "/more/data")


@plugin("acme.broken")
class Broken(Preprocessor):
    def rewrite(self, text):
        return {}["nothing"]
'''
PIPELINE = """
sources:
  rows: {type: file, path: DATA/rows, format: csv, primary_key: id}
transforms: {}
sinks:
  out: {type: blackhole, from: rows}
"""


@pytest.fixture
def pipeline(tmp_path):
    (tmp_path / "plugins.py").write_text(PLUGINS)
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)

    def read(ids: str, text: str = PIPELINE, **variables: str):
        (tmp_path / "pipeline.yaml").write_text(text)
        env = {
            "STREAMLING__PLUGIN__PATH": str(tmp_path / "plugins.py"),
            "STREAMLING__PLUGIN__PREPROCESSOR_IDS": ids,
            "STREAMLING__PLUGIN__PREPROCESSOR_OPTIONS": '{"folder": "/data"}',
            **variables,
        }
        launcher = Launcher.of(load_config("config", cwd=tmp_path, env=env))
        return launcher.pipeline(str(tmp_path / "pipeline.yaml"))

    return read


def test_they_run_in_the_order_of_the_configuration(pipeline):
    assert pipeline("acme.paths,acme.again")["rows"].options.path == "/more/data/rows"
    assert pipeline("acme.again,acme.paths")["rows"].options.path == "/data/rows"


def test_options_are_keyed_by_the_id(pipeline):
    keyed = {
        "acme.paths": '{"folder": "/all", "acme.paths": {"folder": "/own"}, "acme.again": {"folder": "/other"}}',
        "variable": '{"folder": "/all"}',
        "empty": '{"folder": "/all", "acme.paths": null}',
    }
    name = "STREAMLING__PLUGIN__PREPROCESSOR_OPTIONS"
    assert pipeline("acme.paths", **{name: keyed["acme.paths"]})["rows"].options.path == "/own/rows"
    assert pipeline("acme.paths", **{name: keyed["empty"]})["rows"].options.path == "/all/rows"
    variable = {name: keyed["variable"], f"{name}__ACME_PATHS__FOLDER": "/var"}
    assert pipeline("acme.paths", **variable)["rows"].options.path == "/var/rows"


def test_one_that_is_not_there_is_skipped_with_a_warning(pipeline, caplog):
    assert pipeline("acme.nothing,acme.paths")["rows"].options.path == "/data/rows"
    assert "there is no preprocessor 'acme.nothing' (plugin.preprocessor_ids): skipped" in caplog.text


def test_a_failure_names_the_preprocessor_and_the_step(pipeline):
    with pytest.raises(StreamlingError) as caught:
        pipeline("acme.broken")
    assert str(caught.value) == "preprocessing the pipeline file: preprocessor 'acme.broken'"
    assert list(caught.value.causes()) == ["KeyError: 'nothing'"]


def test_an_error_that_a_preprocessor_raises_is_one_of_the_user(pipeline):
    with pytest.raises(StreamlingError, match=r"preprocessor 'acme\.paths': there is no DATA in the file") as caught:
        pipeline("acme.paths", PIPELINE.replace("DATA", "here"))
    assert not caught.value.internal
    assert caught.value.remedy == "write DATA where the folder belongs"


def test_errors_in_the_rewritten_file_say_so(pipeline):
    with pytest.raises(InvalidPipeline, match=r"pipeline.yaml \(preprocessed\)"):
        pipeline("acme.paths", PIPELINE.replace("from: rows", "from: DATA"))


def test_it_is_not_a_node_type(pipeline):
    with pytest.raises(InvalidPipeline, match=r"acme\.paths"):
        pipeline("", PIPELINE.replace("type: blackhole", "type: acme.paths"))
