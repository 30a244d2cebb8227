"""A definition is parsed, and its sources are asked, once for a start that follows the check."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.observe.telemetry.log_book import LogBook
from streamling.pipeline.config import load_config
from streamling.pipeline.secrets.keys import Key, KeySetting
from streamling.pipeline.secrets.store import SecretStore
from streamling.serve.catalogue import Actor, Catalogue, open_database
from streamling.serve.control import ControlPlane
from streamling.serve.launchers import Launchers
from streamling.serve.model import PipelineBody, PipelineKey
from streamling.serve.reconciler import Reconciler
from streamling.serve.shared_runtime import SharedRuntime
from streamling.serve.warm_spark import WarmSpark
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.spark

KEY, ALICE = PipelineKey("default", "counted"), Actor("alice")
DEFINITION = """
sources:
  numbers: {type: acme.numbers, primary_key: id}
transforms: {}
sinks:
  out: {type: blackhole, from: numbers}
"""
PLUGINS = """
from pathlib import Path

import pyarrow as pa

from streamling.plugins import Preprocessor, Source, SourceBatch, SourceOptions, Wait, plugin

LOG = Path(__file__).with_name("calls")


def note(call):
    with LOG.open("a") as file:
        print(call, file=file)


@plugin("acme.noted")
class Noted(Preprocessor):
    def rewrite(self, text):
        note("parsed")
        return text


@plugin("acme.numbers")
class Numbers(Source[SourceOptions]):
    def schema(self):
        note("asked")
        return pa.schema([pa.field("id", pa.int64())])

    def read(self, position):
        if position:
            return Wait(0.05)
        return SourceBatch(pa.record_batch({"id": [1]}, schema=pa.schema([pa.field("id", pa.int64())])), {"numbers": 1})
"""


class Served:
    """A server without its API."""

    def __init__(self, folder: Path, runtime) -> None:
        (folder / "plugins.py").write_text(PLUGINS)
        env = {
            "STREAMLING__PLUGIN__PATH": str(folder / "plugins.py"),
            "STREAMLING__PLUGIN__PREPROCESSOR_IDS": "acme.noted",
            "STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH": str(folder / "state.db"),
            "STREAMLING__SERVE__VARIABLES": "",
        }
        config = load_config(cwd=folder, env=env)
        store = SecretStore(folder / "secrets.enc", KeySetting(Key.generate().text))
        self.launchers = Launchers(config, "config", folder, {**os.environ, **env}, store)
        self._calls = folder / "calls"
        self.database = open_database(config)
        self.catalogue = Catalogue(self.database)
        shared = SharedRuntime(self.launchers, WarmSpark(lambda: runtime))
        self.reconciler = Reconciler(self.catalogue, {"shared": shared}, lambda record: None)
        self.catalogue.on_change = self.reconciler.wake
        self.control = ControlPlane(self.catalogue, self.reconciler, self.launchers, LogBook())
        self.reconciler.start()

    def calls(self) -> list[str]:
        """What has been done since the last call."""
        found = self._calls.read_text().split() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return sorted(found)

    def post(self, definition: str = DEFINITION) -> None:
        body = PipelineBody(definition=definition)
        self.control.check(KEY, body, starts=True)
        self.catalogue.create(KEY, body, ALICE)

    def is_ready(self) -> bool:
        actual, record = self.reconciler.actual(KEY), self.catalogue.get(KEY)
        assert not actual.error, actual.error
        return actual.ready and actual.revision == record.revision

    def close(self) -> None:
        self.reconciler.stop()
        self.reconciler.join()
        self.database.close()


@pytest.fixture
def served(tmp_path, runtime) -> Iterator[Served]:
    running = Served(tmp_path, runtime)
    yield running
    running.close()


def test_a_post_parses_and_asks_once_and_a_restart_again(served):
    served.post()
    assert eventually(served.is_ready)
    assert served.calls() == ["asked", "parsed"]

    served.catalogue.restart(KEY, ALICE)
    assert eventually(served.is_ready)
    assert served.calls() == ["asked", "parsed"]


def test_a_definition_that_has_changed_since_is_checked_again(served):
    body = PipelineBody(definition=DEFINITION)
    served.control.check(KEY, body, starts=True)
    assert served.calls() == ["asked", "parsed"]
    changed = body.model_copy(update={"definition": DEFINITION.replace("blackhole", "print")})
    served.catalogue.create(KEY, changed, ALICE)
    assert eventually(served.is_ready)
    assert served.calls() == ["asked", "parsed"]


def test_sources_are_asked_again_if_there_is_a_state(served):
    """What a source finds in its state may decide what it asks."""
    served.post()
    assert eventually(lambda: served.is_ready() and served.reconciler.measure(KEY).rows_out)
    served.catalogue.delete(KEY, "keep", ALICE)
    assert eventually(lambda: KEY not in served.catalogue.records())
    served.calls()
    served.post()
    assert eventually(served.is_ready)
    assert served.calls() == ["asked", "asked", "parsed"]


def test_a_paused_pipeline_is_checked_when_it_starts(served):
    body = PipelineBody(definition=DEFINITION, desired="paused")
    served.control.check(KEY, body, starts=True)
    served.catalogue.create(KEY, body, ALICE)
    assert served.calls() == ["asked", "parsed"]
    served.catalogue.set_desired(KEY, "running", ALICE)
    assert eventually(served.is_ready)
    assert served.calls() == ["asked", "parsed"]
