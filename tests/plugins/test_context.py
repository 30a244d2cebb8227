"""What a plugin is given: state of its own that it can clear, retries, errors with marks."""

from __future__ import annotations

import pyarrow as pa
import pytest

from streamling.dev.contracts.contract import sample_rows
from streamling.errors import StreamlingError
from streamling.pipeline.options import SinkOptions
from streamling.plugins import Sink
from streamling.plugins.messages import Error
from streamling.retry import backoff_delay
from streamling.testing import PipelineHarness


class Forgetting(Sink[SinkOptions]):
    """Remembers something, forgets everything when it is opened."""

    Options = SinkOptions

    def open(self):
        self.context.state.clear()

    def write(self, batch: pa.RecordBatch):
        self.context.state.put(f"{self.context.name}:seen", batch.num_rows)


def test_a_plugin_clears_its_own_entries_and_no_others():
    bench = PipelineHarness(Forgetting, {})
    others = {"given": 0, "under_test_2": 1, "under": 2, "dynamic_table:under_test": 3}
    own = {"under_test": 1, "under_test:old": 2, "under_test:a:b": 3}
    bench.state.put_many({**others, **own})
    bench.finish([sample_rows(0, 5)])
    assert bench.position == {**others, "given": 1, "under_test:seen": 5}


def test_entries_of_a_node_whose_name_begins_alike_stay():
    from streamling.engine.run.contexts import NodeStateView
    from streamling.engine.state.memory import MemoryState

    backend = MemoryState()
    backend.put_many({"a": 1, "a:x": 2, "a:b": 3, "a:b:x": 4, "a:bc": 5})
    NodeStateView(backend, "a", ["a", "a:b", "b"]).clear()
    assert backend.items() == {"a:b": 3, "a:b:x": 4}


class Unsteady(Sink[SinkOptions]):
    """The service refuses the first two attempts."""

    Options = SinkOptions
    attempts: list[int]
    error = StreamlingError("the service is restarting").mark_retriable()

    def write(self, batch: pa.RecordBatch):
        self.context.retry(lambda: self._send(batch))

    def _send(self, batch: pa.RecordBatch):
        self.attempts.append(batch.num_rows)
        if len(self.attempts) < 3:
            raise self.error


@pytest.mark.parametrize(("retriable", "attempts"), [(True, [5, 5, 5]), (False, [5])])
def test_what_is_marked_retriable_is_tried_again(retriable, attempts, monkeypatch):
    error = StreamlingError("the service is restarting")
    made = type("Made", (Unsteady,), {"attempts": [], "error": error.mark_retriable() if retriable else error})
    bench = PipelineHarness(made, {})
    if retriable:
        bench.finish([sample_rows(0, 5)])
    else:
        assert "the service is restarting" in str(bench.failure([sample_rows(0, 5)]))
    assert made.attempts == attempts
    assert backoff_delay(1, 0.0) < 1


def test_marks_can_be_added_and_survive_context():
    error = StreamlingError("no").mark_retriable().mark_user_facing().context("sink 'out'")
    assert (error.retriable, error.internal, str(error)) == (True, False, "sink 'out': no")
    assert StreamlingError.wrap(error, "later") is error
    assert not error.internal


def test_an_error_message_carries_its_marks():
    assert [(e.retriable, e.internal) for e in (Error("x").raised(), Error("x", retriable=True).raised())] == [
        (False, True),
        (True, True),
    ]
    assert not Error("x", user_facing=True).raised().internal
