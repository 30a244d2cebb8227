"""Settings whose effect is seen by running something small."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from streamling.engine.build import Rebatcher
from streamling.pipeline.options import SinkOptions
from streamling.plugins.operators import Sink
from streamling.plugins.registry import Registry
from streamling.plugins.testing import Bench
from streamling.plugins.testing.bench import eventually, settled, wait_for_end
from streamling.plugins.testing.contract import sample_rows
from streamling.sinks.kafka import KafkaSink, KafkaSinkOptions
from streamling.sinks.print import PrintSink
from streamling.sinks.webhook import WebhookSink
from streamling.transforms.script import ScriptTransform
from tests.effects.configuration import _context
from tests.endpoint import endpoint


class Slow(Sink[SinkOptions]):
    Options = SinkOptions

    def write(self, batch: pa.RecordBatch) -> None:
        pass


@pytest.mark.parametrize(
    ("config", "waiting"),
    [
        ({}, 2),
        ({"internal_buffer_size": 5}, 5),
        ({"plugin": {"channel_capacity": 7}}, 7),
        ({"internal_buffer_size": 5, "plugin": {"channel_capacity": 3}}, 3),
    ],
)
def test_so_many_batches_wait_in_front_of_a_node(config, waiting):
    bench = Bench(Slow, {})
    bench.config = config
    gate = bench.journal.hold("write")
    read: list[int] = []
    bench.asked = read.append
    run = bench.start([sample_rows(number, 1) for number in range(20)], interval=3600)
    eventually(lambda: bench.over or len(read) > waiting, "the source is read")
    ahead = settled(lambda: len(read))
    gate.set()
    wait_for_end(run)
    assert ahead == 1 + waiting + 1  # one is being written, one waits to be handed over


_SCRIPT = {"primary_key": "id", "language": "js", "script": "r => r"}


@pytest.mark.parametrize("kind", [ScriptTransform, PrintSink])
def test_rows_are_collected_for_every_node_in_a_lane(kind, capsys):
    """`batch_size` and `batch_flush_interval` are the engine's: what is true for one node in a lane is for all."""
    options: dict[str, Any] = _SCRIPT if kind is ScriptTransform else {}
    method = "process" if kind is ScriptTransform else "write"
    sizes = {}
    for size in (None, 4):
        bench = Bench(
            kind, {**options, **({} if size is None else {"batch_size": size, "batch_flush_interval": "60s"})}
        )
        bench.finish([sample_rows(number, 3) for number in range(4)], interval=3600)
        sizes[size] = [call.arguments[0].num_rows for call in bench.journal.of(method)]
    assert sizes == {None: [3, 3, 3, 3], 4: [4, 4, 4]}
    assert list(Rebatcher(None, 0.0).add(sample_rows(0, 3), 0.0)) == []  # with an interval alone, rows wait for it


def test_a_script_node_runs_as_often_as_it_says():
    for options, config, instances in (
        ({}, {}, 1),
        ({"parallelism": 2}, {}, 2),
        ({}, {"wasm_script": {"parallelism": 3}}, 3),
        ({"parallelism": 2}, {"wasm_script": {"parallelism": 3}}, 2),
    ):
        bench = Bench(ScriptTransform, {**_SCRIPT, **options})
        bench.config = config
        bench.finish([sample_rows(0, 3)])
        assert len(bench.journal.instances()) == instances


def test_producer_settings_of_the_kafka_sink():
    def producer(**options: Any) -> dict[str, str]:
        from streamling.config import AppConfig

        fields = {"type": "kafka", "from": "x", "topic": "t", "data_format": "json", **options}
        return KafkaSink(_context(AppConfig(), KafkaSinkOptions.model_validate(fields)))._producer()

    plain = producer()
    for options, setting, value in (
        ({"batch_size": 50}, "batch.size", "5000"),
        ({"batch_flush_interval": "3s"}, "linger.ms", "3000"),
        ({"compression": "gzip"}, "compression.type", "gzip"),
    ):
        assert plain[setting] != producer(**options)[setting] == value


def test_headers_and_secret_of_a_webhook():
    with endpoint() as server:
        bench = Bench(WebhookSink, {"url": server.url, "headers": {"X-Team": "blue"}, "secret_name": "hook"})
        bench.config = {"http_secret_header": {"hook": "X-Key"}, "http_secret_value": {"hook": "hunter2"}}
        bench.finish([sample_rows(0, 1)])
    (request,) = server.requests
    sent = {name.lower(): value for name, value in request.headers.items()}
    assert (sent["x-team"], sent["x-key"]) == ("blue", "hunter2")


def test_every_type_that_runs_is_known_here():
    """A guard for the tables: a new node type has to be entered there."""
    assert {"kafka", "postgres", "webhook", "print"} <= set(Registry.builtin().ids("sink"))  # type: ignore[arg-type]
