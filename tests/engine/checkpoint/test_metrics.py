"""Every metric of a checkpoint, by its name and with the value that the checkpoints of the test give it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engine.checkpoint.test_checkpointer import SOON, FragileState, running

from streamling.errors import StreamlingError
from streamling.observe.telemetry.catalogue import metrics
from streamling.observe.telemetry.metrics import PIPELINE, MetricStore


def measured(store: MetricStore) -> dict[str, Any]:
    """The checkpoint metrics that were recorded; how often, for one that measures a duration."""
    found = {}
    for series in store.snapshot():
        assert series.name in metrics()
        name = "".join([series.name, *(f" of {tag}" for tag in sorted(series.tags.values()))])
        found[name] = series.value if isinstance(series.value, float | int) else series.value.count
    return found


def test_epochs_that_succeed() -> None:
    store = MetricStore()
    with running(metrics=store.of(PIPELINE)) as pipeline:
        for number in range(3):
            pipeline.answer(pipeline.begin(), a=number, b=2)
            pipeline.finalized.get(timeout=SOON)
    assert measured(store) == {
        "checkpoint_epochs_succeeded": 3,
        "checkpoint_finalizers_sent": 3,
        "checkpoint_epoch_duration": 3,
        "checkpoint_markers_sent": 6,
        "checkpoint_acks_received": 6,
        "checkpoint_per_sink_ack_latency of s": 3,
        "checkpoint_per_sink_ack_latency of t": 3,
        "checkpoint_epochs_in_flight": 0,
        "checkpoint_marker_arrival of s": 3,
        "checkpoint_marker_arrival of t": 3,
        "checkpoint_sink_flush of s": 3,
        "checkpoint_sink_flush of t": 3,
        "checkpoint_finalization_wait of s": 3,
        "checkpoint_finalization_wait of t": 3,
    }


def test_an_epoch_that_fails() -> None:
    store = MetricStore()
    with running(FragileState(StreamlingError("disk full")), metrics=store.of(PIPELINE)) as pipeline:
        pipeline.answer(pipeline.begin(), a=1, b=2)
        pipeline.failures.get(timeout=SOON)
    assert measured(store) == {
        "checkpoint_epochs_failed": 1,
        "checkpoint_markers_sent": 2,
        "checkpoint_acks_received": 2,
        "checkpoint_per_sink_ack_latency of s": 1,
        "checkpoint_per_sink_ack_latency of t": 1,
        "checkpoint_epochs_in_flight": 0,
    }


def test_a_last_epoch_that_does_not_complete_in_time() -> None:
    store = MetricStore()
    with running(metrics=store.of(PIPELINE)) as pipeline:
        assert not pipeline.checkpointer.terminal(timeout=0)
    assert measured(store)["checkpoint_terminal_finalizer_skipped"] == 1


def test_every_checkpoint_metric_of_the_catalogue_is_tested_here() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    missing = [name for name in metrics() if name.startswith("checkpoint_") and f'"{name}' not in text]
    assert not missing


def test_durations_are_those_of_the_clock() -> None:
    store = MetricStore()
    with running(metrics=store.of(PIPELINE)) as pipeline:
        epoch = pipeline.begin()
        pipeline.clock.advance(2)
        pipeline.answer(epoch, a=1, b=2)
        pipeline.finalized.get(timeout=SOON)
    for name, tags in (("checkpoint_epoch_duration", {}), ("checkpoint_per_sink_ack_latency", {"sink": "s"})):
        distribution = store.value(name, PIPELINE, **tags)
        assert distribution is not None
        assert distribution.sum == 2000  # milliseconds
