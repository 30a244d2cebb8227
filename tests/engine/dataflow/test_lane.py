import threading

import pyarrow as pa

from streamling.clock import RealClock
from streamling.engine.dataflow.lane import Lane
from streamling.engine.dataflow.rebatch import Rebatcher
from streamling.errors import NodeLabel
from streamling.observe.activity import Activity
from streamling.observe.epochs import EpochLog
from streamling.observe.telemetry.metrics import MetricStore, StreamlingError


def rows(*ids: int) -> pa.RecordBatch:
    return pa.record_batch({"id": pa.array(ids, pa.int64())})


class Recorder:
    """Writes down what it is asked to do; can be held up and can fail."""

    def __init__(self, fail_on: str = "") -> None:
        self.seen: list[object] = []
        self.go = threading.Event()
        self.go.set()
        self._fail_on = fail_on

    def _note(self, what: object) -> None:
        self.go.wait(10)
        self.seen.append(what)
        if what == self._fail_on:
            raise ValueError(f"cannot {what}")

    def open(self, wake):
        self._note("open")

    def proceed(self):
        pass

    def process(self, batch):
        self._note(batch.column("id").to_pylist())

    def alignment_started(self, epoch):
        self._note(f"mark {epoch} ahead")

    def mark(self, epoch):
        self._note(f"mark {epoch}")

    def finalized(self, epoch):
        self._note(f"finalized {epoch}")

    def close(self):
        self._note("close")


def lane(work, *feeders, rows=None, interval=None, failures=None) -> Lane:
    made = Lane(
        NodeLabel("test", "sink", "s"),
        work,
        rebatcher=Rebatcher(rows, interval),
        clock=RealClock(),
        activity=Activity(MetricStore().of("s")),
        markers=EpochLog().markers_of("s"),
        on_failure=(failures if failures is not None else []).append,
    )
    for feeder in feeders or ("a",):
        made.add_feeder(feeder)
    made.start()
    return made


def test_rows_and_markers_are_processed_in_the_order_they_were_sent():
    work = Recorder()
    one = lane(work)
    one.put(rows(1, 2))
    one.mark("a", 1)
    one.put(rows(3))
    one.end()
    assert one.join(10)
    assert work.seen == ["open", [1, 2], "mark 1", [3], "close"]


def test_a_marker_flushes_rows_that_wait_for_a_full_batch():
    work = Recorder()
    one = lane(work, rows=100)
    one.put(rows(1))
    one.mark("a", 1)
    one.end()
    one.join(10)
    assert work.seen == ["open", [1], "mark 1", "close"]


def test_a_marker_passes_only_when_every_feeder_has_sent_it():
    work = Recorder()
    one = lane(work, "a", "b")
    one.mark("a", 1)
    one.put(rows(1))
    one.mark("b", 1)
    one.end()
    one.join(10)
    assert work.seen == ["open", "mark 1 ahead", [1], "mark 1", "close"]


def test_a_marker_of_one_feeder_alone_is_never_passed_on():
    work = Recorder()
    one = lane(work, "a", "b")
    one.mark("a", 1)
    one.mark("a", 2)
    one.end()
    one.join(10)
    assert work.seen == ["open", "mark 1 ahead", "mark 2 ahead", "close"]


def test_waiting_rows_go_when_their_interval_has_passed():
    work = Recorder()
    one = lane(work, rows=100, interval=0.05)
    one.put(rows(1))
    for _ in range(200):
        if len(work.seen) == 2:
            break
        threading.Event().wait(0.02)
    assert work.seen == ["open", [1]]
    one.end()
    one.join(10)


def test_a_feeder_is_held_up_while_the_lane_is_behind():
    work = Recorder()
    work.go.clear()
    one = lane(work)
    sent: list[int] = []

    def feed():
        for number in range(10):
            one.put(rows(number))
            sent.append(number)

    feeder = threading.Thread(target=feed)
    feeder.start()
    feeder.join(0.5)
    assert feeder.is_alive()
    assert len(sent) <= 2, "more batches in memory than the queue may hold"
    work.go.set()
    feeder.join(10)
    one.end()
    assert one.join(10)
    assert len(work.seen) == 12


def test_a_failure_is_reported_once_with_its_node_and_never_acknowledged():
    failures: list[StreamlingError] = []
    work = Recorder(fail_on="mark 1")
    one = lane(work, failures=failures)
    one.put(rows(1))
    one.mark("a", 1)
    one.join(10)
    one.put(rows(2))  # must not block, although it is never processed
    assert [str(failure) for failure in failures] == ["test sink 's'"]
    assert "cannot mark 1" in next(failures[0].causes())
    assert work.seen == ["open", [1], "mark 1", "close"]


def test_a_failing_open_is_not_followed_by_a_close():
    failures: list[StreamlingError] = []
    work = Recorder(fail_on="open")
    one = lane(work, failures=failures)
    one.join(10)
    assert work.seen == ["open"]
    assert len(failures) == 1


def test_finalized_comes_between_data_calls():
    work = Recorder()
    one = lane(work)
    one.mark("a", 1)
    one.notify_finalized(1)
    one.put(rows(1))
    one.end()
    one.join(10)
    assert "finalized 1" in work.seen
    assert work.seen.index("mark 1") < work.seen.index("finalized 1")


def test_finalized_comes_before_the_end_also_if_the_lane_was_busy():
    work = Recorder()
    work.go.clear()
    one = lane(work)
    one.mark("a", 1)
    one.end()
    one.notify_finalized(1)
    work.go.set()
    assert one.join(10)
    assert work.seen == ["open", "mark 1", "finalized 1", "close"]


def test_rows_that_may_belong_to_the_next_epoch_are_distinguished():
    work = Recorder()
    one = lane(work, "a", "b", "c")
    one.put(rows(1))
    one.mark("a", 1)
    one.put(rows(2))
    one.mark("b", 1)
    one.mark("c", 1)
    one.put(rows(3))
    one.end()
    assert one.join(10)
    assert work.seen == ["open", [1], "mark 1 ahead", [2], "mark 1", [3], "close"]
