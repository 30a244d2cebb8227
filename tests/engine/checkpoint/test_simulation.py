"""Hundreds of seeded runs of the model in `model.py`. To replay a failure: ``simulate(<seed>)``."""

from __future__ import annotations

import os
from collections import Counter

import pytest
from tests.engine.checkpoint.model import InvariantError, simulate

from streamling.engine.checkpoint.coordinator import Coordinator
from streamling.engine.checkpoint.messages import Ack, Action, Event, Stop, Store

SEEDS = range(int(os.environ.get("STREAMLING_TEST_SIMULATIONS", "200")))


def test_nothing_is_committed_before_it_is_durable_and_nothing_is_lost() -> None:
    """Whichever way a process ends; every way occurs."""
    endings = Counter(_kind(ending) for seed in SEEDS for ending in simulate(seed))

    assert set(endings) == {
        "crash",
        "crash between storing and telling",
        "drained",
        "sink failed",
        "state backend is unavailable",
        "state backend is full",
        "timed out",
        "the terminal checkpoint took too long",
    }


def _kind(ending: str) -> str:
    for kind in ("state backend is unavailable", "state backend is full", "timed out"):
        if kind in ending:
            return kind
    return "sink failed" if ending.startswith("sink") else ending


# ── the model must notice when the protocol is broken ───────────────────────────────────────────────────────


class CommitsBeforeAcks(Coordinator):
    def _advance(self, now: float) -> list[Action]:
        if self._epoch is not None:
            self._epoch.acked |= self._sinks
        return super()._advance(now)


class OneAckIsEnough(Coordinator):
    def _acked(self, event: Ack, now: float) -> list[Action]:
        if self._epoch is not None:
            self._epoch.acked |= self._sinks
        return super()._acked(event, now)


class TakesAcksOfOtherEpochs(Coordinator):
    def _acked(self, event: Ack, now: float) -> list[Action]:
        number = self._epoch.number if self._epoch else event.epoch
        return super()._acked(Ack(event.sink, number), now)


class AnnouncesBeforeStoring(Coordinator):
    def _advance(self, now: float) -> list[Action]:
        actions = super()._advance(now)
        return self._finalize(now) if any(isinstance(action, Store) for action in actions) else actions


class ForgetsToStore(Coordinator):
    def _changes(self, positions: object) -> dict[str, object]:
        return {}


class NeverDropsAnEpochForTheTerminalOne(Coordinator):
    def _terminal(self, now: float) -> list[Action]:
        return [] if self._epoch is not None else super()._terminal(now)


class StopsByCommitting(Coordinator):
    def handle(self, event: Event, now: float) -> list[Action]:
        epoch = self._epoch
        actions = super().handle(event, now)
        if isinstance(event, Stop) and epoch is not None:
            return [Store(epoch.number, {key: p[key] for p in epoch.marked.values() for key in p})]
        return actions


@pytest.mark.parametrize(
    "broken",
    [
        CommitsBeforeAcks,
        OneAckIsEnough,
        TakesAcksOfOtherEpochs,
        AnnouncesBeforeStoring,
        ForgetsToStore,
        NeverDropsAnEpochForTheTerminalOne,
        StopsByCommitting,
    ],
)
def test_a_broken_coordinator_is_caught(broken: type[Coordinator]) -> None:
    with pytest.raises(InvariantError, match=r"^seed \d+: "):
        _simulate_all(broken)


def _simulate_all(coordinator_class: type[Coordinator]) -> None:
    for seed in SEEDS:
        simulate(seed, coordinator_class)
