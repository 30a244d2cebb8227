from __future__ import annotations

import pytest

from streamling.engine.checkpoint.coordinator import WARN_EVERY, Coordinator, terminal_wait
from streamling.engine.checkpoint.messages import (
    Ack,
    Failure,
    Finalizer,
    Marked,
    Marker,
    Moved,
    Requested,
    Stop,
    Store,
    Stored,
    StoreFailed,
    TerminalRequested,
    Tick,
    Warn,
)
from streamling.errors import StreamlingError
from streamling.plugins.state_backend import FencedError

TIMEOUT = 300.0


def coordinator(*, flows: tuple[str, ...] = ("a",), sinks: tuple[str, ...] = ("s",)) -> Coordinator:
    return Coordinator(flows=flows, sinks=sinks, interval=5, timeout=TIMEOUT, now=0)


def begun(**options: tuple[str, ...]) -> Coordinator:
    """A coordinator whose epoch 1 began at second 5."""
    made = coordinator(**options)
    assert made.handle(Tick(), 5) == [Marker(1)]
    return made


def test_an_epoch_begins_after_the_interval() -> None:
    made = coordinator()

    assert made.wake_at() == 5
    assert made.handle(Tick(), 4.9) == []
    assert made.handle(Tick(), 5) == [Marker(1)]


def test_positions_are_stored_when_all_flows_marked_and_all_sinks_acknowledged() -> None:
    made = begun(flows=("a", "b"), sinks=("s", "t"))

    assert made.handle(Ack("s", 1), 6) == []
    assert made.handle(Marked("a", 1, {"a": 10}), 6) == []
    assert made.handle(Marked("b", 1, {"b": 20}), 6) == []
    assert made.handle(Ack("t", 1), 7) == [Store(1, {"a": 10, "b": 20})]


def test_the_finalizer_follows_the_stored_positions() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"a": 10}), 6)
    made.handle(Ack("s", 1), 7)

    assert made.handle(Stored(1), 8) == [Finalizer(1, {"a": {"a": 10}}, terminal=False, seconds=3)]


def finalize(made: Coordinator, epoch: int, position: int, now: float) -> list[object]:
    made.handle(Marked("a", epoch, {"a": position}), now)
    actions = made.handle(Ack("s", epoch), now)
    return [*actions, *made.handle(Stored(epoch), now)]


def test_the_next_epoch_begins_an_interval_after_the_previous_began() -> None:
    made = begun()
    finalize(made, 1, 10, now=6)

    assert made.wake_at() == 10


def test_the_next_epoch_waits_for_a_slow_one() -> None:
    made = begun()

    assert [type(action) for action in made.handle(Tick(), 15)] == [Warn]
    finalize(made, 1, 10, now=18)
    assert made.wake_at() == 18
    assert made.handle(Tick(), 18) == [Marker(2)]


def test_what_did_not_change_is_not_stored_again() -> None:
    made = begun(flows=("a", "b"))
    for flow in "ab":
        made.handle(Marked(flow, 1, {flow: 1}), 5)
    made.handle(Ack("s", 1), 5)
    made.handle(Stored(1), 5)
    made.handle(Tick(), 10)
    made.handle(Marked("a", 2, {"a": 1}), 10)
    made.handle(Marked("b", 2, {"b": 2}), 10)

    assert made.handle(Ack("s", 2), 10) == [Store(2, {"b": 2})]


def test_what_a_sink_wants_stored_goes_with_the_positions_every_time() -> None:
    made = begun(sinks=("s", "t"))
    for epoch, now in ((1, 6), (2, 11)):
        made.handle(Marked("a", epoch, {"a": 10}), now)
        made.handle(Ack("s", epoch, {"seen": ["x"]}), now)
        (store,) = made.handle(Ack("t", epoch), now)
        assert store == Store(epoch, {"a": 10, "seen": ["x"]} if epoch == 1 else {"seen": ["x"]})
        made.handle(Stored(epoch), now)
        made.handle(Tick(), now + 5)


def test_an_idle_epoch_is_finalized_without_the_state_backend() -> None:
    made = begun()
    finalize(made, 1, 10, now=6)
    made.handle(Tick(), 10)
    made.handle(Marked("a", 2, {"a": 10}), 10)

    assert made.handle(Ack("s", 2), 10) == [Finalizer(2, {"a": {"a": 10}}, terminal=False, seconds=0)]


def test_no_epoch_begins_while_nothing_changes() -> None:
    made = begun()
    finalize(made, 1, 10, now=6)
    assert made.handle(Tick(), 10) == [Marker(2)]  # one more: sinks may clean up after the first
    finalize(made, 2, 10, now=10)

    assert made.wake_at() is None
    assert made.handle(Tick(), 1000) == []
    assert made.handle(Moved(), 1000) == []
    assert made.wake_at() == 15
    assert made.handle(Tick(), 1000) == [Marker(3)]


@pytest.mark.parametrize("event", [Requested(), TerminalRequested()])
def test_an_epoch_that_is_requested_begins_even_if_nothing_changes(event: Requested | TerminalRequested) -> None:
    made = begun()
    finalize(made, 1, 10, now=6)
    made.handle(Tick(), 10)
    finalize(made, 2, 10, now=10)

    assert [type(action) for action in made.handle(event, 11)] == [Marker]


def test_a_batch_that_follows_the_marker_of_an_idle_epoch_is_stored_by_the_next_one() -> None:
    made = begun()
    finalize(made, 1, 10, now=6)
    made.handle(Tick(), 10)
    made.handle(Marked("a", 2, {"a": 10}), 10)
    made.handle(Moved(), 10)
    made.handle(Ack("s", 2), 10)

    assert made.wake_at() == 15


def test_the_first_position_of_an_epoch_counts() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"a": 10}), 6)
    made.handle(Marked("a", 1, {"a": 99}), 6)

    assert made.handle(Ack("s", 1), 7) == [Store(1, {"a": 10})]


def test_duplicate_and_late_reports_are_harmless() -> None:
    made = begun(sinks=("s", "t"))

    assert made.handle(Ack("s", 1), 6) == []
    assert made.handle(Ack("s", 1), 6) == []
    made.handle(TerminalRequested(), 7)
    assert made.handle(Ack("t", 1), 8) == []
    assert made.handle(Marked("a", 1, {"a": 1}), 8) == []


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (Ack("stranger", 1), "sink 'stranger'"),
        (Ack("s", 7), "epoch 7"),
        (Marked("stranger", 1, {}), "source 'stranger'"),
        (Marked("a", 7, {}), "epoch 7"),
    ],
)
def test_unexpected_reports_are_logged_and_ignored(event: Ack | Marked, named: str) -> None:
    made = begun()

    [warning] = made.handle(event, 6)

    assert isinstance(warning, Warn)
    assert named in warning.message
    assert made.missing() == "source 'a' and sink 's'"


def test_a_slow_epoch_is_reported_every_ten_seconds_with_what_is_missing() -> None:
    made = begun(sinks=("s", "t"))
    made.handle(Marked("a", 1, {"a": 1}), 6)
    made.handle(Ack("s", 1), 6)

    assert made.wake_at() == 15
    [first] = made.handle(Tick(), 15)
    assert made.handle(Tick(), 16) == []
    assert made.wake_at() == 25
    [second] = made.handle(Tick(), 25)
    assert isinstance(first, Warn)
    assert first.message == "checkpoint 1 (flushing) is not complete after 10 s: waiting for sink 't'"
    assert isinstance(second, Warn)
    assert "after 20 s" in second.message


def test_a_stuck_epoch_times_out_and_names_what_is_missing() -> None:
    made = begun(flows=("a", "b"), sinks=("s", "t", "u"))
    made.handle(Marked("a", 1, {"a": 1}), 6)
    made.handle(Ack("s", 1), 6)

    [failure] = made.handle(Tick(), 305)

    assert isinstance(failure, Failure)
    assert str(failure.error) == (
        "checkpoint 1 timed out: source 'b' and sinks 't', 'u' did not respond within 300 s; nothing was committed"
    )
    assert made.is_finished


def test_nothing_is_committed_after_a_failure() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"a": 1}), 6)
    made.handle(Tick(), 305)

    assert made.handle(Ack("s", 1), 306) == []
    assert made.wake_at() is None


# ── terminal epoch ──────────────────────────────────────────────────────────────────────────────────────────


def test_the_terminal_epoch_drops_the_one_in_flight() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"a": 1}), 6)

    assert made.handle(TerminalRequested(), 7) == [Marker(2, terminal=True)]
    assert made.handle(Ack("s", 1), 7) == []


def test_the_terminal_epoch_is_the_last_one() -> None:
    made = coordinator()
    made.handle(TerminalRequested(), 1)
    actions = finalize(made, 1, 10, now=2)

    assert actions == [Store(1, {"a": 10}), Finalizer(1, {"a": {"a": 10}}, terminal=True, seconds=1)]
    assert made.is_finished
    assert made.wake_at() is None


def test_only_one_terminal_epoch_is_minted() -> None:
    made = coordinator()

    assert made.handle(TerminalRequested(), 1) == [Marker(1, terminal=True)]
    assert made.handle(TerminalRequested(), 2) == []


def test_an_epoch_that_is_being_stored_is_finalized_before_the_terminal_one() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"a": 1}), 6)
    made.handle(Ack("s", 1), 6)

    assert made.handle(TerminalRequested(), 7) == []
    assert made.handle(Stored(1), 8) == [
        Finalizer(1, {"a": {"a": 1}}, terminal=False, seconds=3),
        Marker(2, terminal=True),
    ]


def test_an_abandoned_terminal_epoch_names_the_sinks_that_did_not_acknowledge() -> None:
    made = coordinator(sinks=("s", "t"))
    made.handle(TerminalRequested(), 1)
    made.handle(Marked("a", 1, {"a": 1}), 2)
    made.handle(Ack("s", 1), 2)

    assert made.handle(Stop(), 13) == []

    assert made.abandoned_waiting_for == "sink 't'"
    assert made.handle(Ack("t", 1), 14) == []


def test_the_terminal_epoch_has_the_patience_of_who_waits_for_it() -> None:
    made = coordinator()
    made.handle(TerminalRequested(), 1)

    assert [type(action) for action in made.handle(Tick(), 1000)] == [Warn]


# ── the state backend fails ─────────────────────────────────────────────────────────────────────────────────


def unavailable() -> StreamlingError:
    return StreamlingError.transient("unavailable")


def storing() -> Coordinator:
    made = begun()
    made.handle(Marked("a", 1, {"a": 1}), 6)
    assert made.handle(Ack("s", 1), 6) == [Store(1, {"a": 1})]
    return made


def test_storing_is_tried_again_with_growing_pauses_until_the_time_of_a_checkpoint_is_up() -> None:
    made, now, pauses, warnings = storing(), 6.0, [], []
    while now - 6.0 < TIMEOUT:
        warnings += [
            action.message for action in made.handle(StoreFailed(1, unavailable()), now) if isinstance(action, Warn)
        ]
        tried, failed_at = False, now
        while not tried:
            due = made.wake_at()
            assert due is not None
            now = due
            for action in made.handle(Tick(), now):
                tried |= action == Store(1, {"a": 1})
                warnings += [action.message] if isinstance(action, Warn) else []
        pauses.append(round(now - failed_at, 3))

    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 30
    assert warnings[0] == "checkpoint 1: storing the positions failed, retrying in 0.1 s: unavailable"
    assert "waiting for the state backend, attempt 7: unavailable" in warnings[1]
    assert len(warnings) <= (now - 6.0) / WARN_EVERY + 1
    [failure] = made.handle(StoreFailed(1, unavailable()), now)
    assert isinstance(failure, Failure)
    assert str(failure.error) == "checkpoint 1: storing the positions: unavailable"


def test_a_permanent_failure_of_the_state_backend_is_not_tried_again() -> None:
    [failure] = storing().handle(StoreFailed(1, StreamlingError("disk full")), 6)

    assert isinstance(failure, Failure)


def test_a_store_that_succeeds_at_the_second_attempt_finalizes_the_epoch() -> None:
    made = storing()
    made.handle(StoreFailed(1, StreamlingError.transient("unavailable")), 6)
    made.handle(Tick(), 6.1)

    warnings, finalizer = made.handle(Stored(1), 7)
    assert warnings == Warn("checkpoint 1: the positions were stored at attempt 2")
    assert isinstance(finalizer, Finalizer)


def test_a_store_that_hangs_between_attempts_does_not_keep_the_coordinator_busy() -> None:
    made = storing()
    made.handle(Tick(), 400)

    assert made.wake_at() == 410


@pytest.mark.parametrize(("budget", "seconds"), [(25, 12), (60, 30), (12, 5), (6, 4), (3, 1.5), (1, 0.5)])
def test_the_terminal_wait_leaves_time_to_close(budget: float, seconds: float) -> None:
    assert terminal_wait(budget) == seconds


def test_an_epoch_that_is_wanted_begins_at_once() -> None:
    made = coordinator()

    assert made.handle(Requested(), 1) == [Marker(1)]


def test_an_epoch_that_is_wanted_follows_the_one_in_flight() -> None:
    made = begun()
    assert made.handle(Requested(), 6) == []
    made.handle(Marked("a", 1, {"a": 10}), 6)
    made.handle(Ack("s", 1), 6)

    assert made.handle(Stored(1), 7)[-1] == Marker(2)


def test_what_another_instance_took_over_is_left_out_and_not_tried_again() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"mine": 10, "theirs": 20}), 6)
    made.handle(Ack("s", 1), 7)

    warnings, store = made.handle(StoreFailed(1, FencedError(["theirs"])), 7)
    assert isinstance(warnings, Warn)
    assert "the state under theirs now belongs to another instance" in warnings.message
    assert store == Store(1, {"mine": 10})
    assert made.handle(Stored(1), 8) == [Finalizer(1, {"a": {"mine": 10, "theirs": None}}, terminal=False, seconds=3)]

    made.handle(Tick(), 10)
    made.handle(Marked("a", 2, {"mine": 11, "theirs": 20}), 11)
    assert made.handle(Ack("s", 2), 11) == [Store(2, {"mine": 11})]


def test_an_epoch_of_which_nothing_is_ours_any_more_is_final() -> None:
    made = begun()
    made.handle(Marked("a", 1, {"theirs": 20}), 6)
    made.handle(Ack("s", 1), 7)

    done = made.handle(StoreFailed(1, FencedError(["theirs"])), 7)
    assert done[-1] == Finalizer(1, {"a": {"theirs": None}}, terminal=False, seconds=2)
