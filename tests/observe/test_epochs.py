from __future__ import annotations

from streamling.observe.epochs import EpochLog
from tests.observe.clock import ManualClock


def test_an_epoch_shows_who_reported_when_and_how_long_each_phase_took():
    clock = ManualClock()
    log = EpochLog(now=clock)
    log.started(1, False, ["orders"], ["out"])
    clock.advance(0.1)
    log.marked("orders", 1, {"orders": 5})
    clock.advance(0.2)
    log.acked("out", 1)
    log.storing(1)
    clock.advance(0.05)
    log.finalized(1, 0.35)
    shown = log.recent()[0].as_object()
    assert shown["status"] == "complete"
    assert shown["duration_ms"] == 350
    assert shown["phases"] == {"mark_ms": 100, "flush_ms": 200, "store_ms": 50}
    assert shown["positions"] == {"orders": {"orders": 5}}
    assert shown["markers"] == {"orders": {"at_ms": 100}}
    assert shown["acks"] == {"out": {"at_ms": 300}}
    assert shown["waiting_for"] == []


def waiting(log: EpochLog) -> object:
    shown = log.recent()[0].as_object()
    assert shown["status"] == "running"
    return shown["waiting_for"]


def test_a_running_epoch_shows_who_is_missing():
    log = EpochLog(now=ManualClock())
    log.started(1, False, ["orders", "users"], ["a", "b"])
    log.marked("orders", 1, {})
    assert waiting(log) == ["users"]  # sinks have nothing to acknowledge yet
    assert log.recent()[0].phases == (None, None, None)
    log.marked("users", 1, {})
    assert waiting(log) == ["a", "b"]
    log.acked("b", 1)
    assert waiting(log) == ["a"]
    assert log.recent()[0].phases == (0.0, None, None)


def test_while_positions_are_stored_it_waits_for_the_state_backend():
    log = EpochLog(now=ManualClock())
    log.started(1, False, ["orders"], [])
    log.marked("orders", 1, {})
    log.storing(1)
    assert waiting(log) == ["state backend"]


def test_an_epoch_that_is_replaced_or_fails_is_shown_as_failed():
    log = EpochLog(now=ManualClock())
    log.started(1, False, ["orders"], [])
    log.started(2, True, ["orders"], [])
    log.failed()
    assert [(record.epoch, record.status) for record in log.recent()] == [(2, "failed"), (1, "failed")]


def test_only_the_last_epochs_are_kept_newest_first():
    log = EpochLog(capacity=3, now=ManualClock())
    for epoch in range(1, 6):
        log.started(epoch, False, [], [])
        log.finalized(epoch, 0.0)
    assert [record.epoch for record in log.recent()] == [5, 4, 3]
    assert [record.epoch for record in log.recent(1)] == [5]


def test_late_reports_do_not_change_a_complete_epoch():
    log = EpochLog(now=ManualClock())
    log.started(1, False, ["orders"], [])
    log.finalized(1, 0.0)
    log.marked("orders", 1, {"orders": 9})
    assert log.recent()[0].positions == {}


def test_an_idle_pipeline_keeps_its_position_once():
    log = EpochLog(now=ManualClock())
    for epoch in (1, 2):
        log.started(epoch, False, ["orders"], [])
        log.marked("orders", epoch, {"orders": [1, 2, 3]})
        log.finalized(epoch, 0.0)
    new, old = log.recent()
    assert new.positions["orders"] is old.positions["orders"]
