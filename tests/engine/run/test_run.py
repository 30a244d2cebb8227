"""Whole pipelines on a real Spark session, with operators of their own."""

import threading
from contextlib import suppress

import pytest
from tests.harness.pipelines import Bench, NumbersSource, eventually, finish

from streamling.connectors.memory import collected_rows
from streamling.errors import StreamlingError

pytestmark = pytest.mark.spark


PLAIN = """
sources:
  numbers: {type: numbers, rows: 100, primary_key: id}
transforms: {}
sinks:
  out: {type: ledger, from: numbers}
"""


def test_a_bounded_pipeline_ends_with_every_row_durable_and_its_position_stored(bench):
    bench.run(PLAIN)
    assert bench.ids("out") == list(range(100))
    assert bench.state.get("numbers") == 100


def test_rerunning_a_finished_pipeline_does_nothing(bench):
    bench.run(PLAIN)
    bench.run(PLAIN)
    assert bench.ids("out") == list(range(100))


def test_rows_without_an_operation_are_inserts(bench):
    bench.run(PLAIN)
    assert {row["_gs_op"] for row in bench.books["out"]} == {"i"}


def test_the_sink_is_notified_of_finalized_epochs(bench):
    run = bench.run(PLAIN.replace("rows: 100", "rows: 100, pause: 0.05"))
    (sink,) = run.graph.operators["out"]
    assert sink.finalized_epochs == sorted(sink.finalized_epochs)


FAN_OUT = """
sources:
  numbers: {type: numbers, rows: 100, primary_key: id}
transforms:
  doubled: {type: double, from: numbers}
sinks:
  plain: {type: ledger, from: numbers}
  twice: {type: ledger, from: doubled}
  memory: {type: memory, from: doubled, exclude_gs_op: true}
  hole: {type: blackhole, from: numbers}
"""


def test_every_sink_of_a_fan_out_gets_every_row(bench):
    run = bench.run(FAN_OUT)
    assert bench.ids("plain") == list(range(100))
    assert [row["double"] for row in bench.books["twice"]] == [2 * i for i in range(100)]
    assert collected_rows(run, "memory").column("double").to_pylist() == [2 * i for i in range(100)]
    assert collected_rows(run, "memory").column_names == ["id", "name", "double"]


def test_a_failing_sink_stops_the_pipeline_others_drain_and_nothing_is_committed(bench):
    text = FAN_OUT.replace("twice: {type: ledger", "twice: {type: ledger, fail_at: 55")
    with pytest.raises(StreamlingError) as caught:
        bench.run(text, checkpoint_interval_sec=60)
    assert "ledger sink 'twice'" in str(caught.value)
    assert "row 55 refused" in next(caught.value.causes())
    assert bench.state.get("numbers") is None


def test_after_a_failure_the_rows_of_the_uncommitted_epoch_are_replayed(bench):
    with pytest.raises(StreamlingError):
        bench.run(FAN_OUT.replace("twice: {type: ledger", "twice: {type: ledger, fail_at: 55"))
    bench.run(FAN_OUT)
    assert set(bench.ids("twice")) == set(range(100))
    assert set(bench.ids("plain")) == set(range(100))


def test_batch_size_is_what_a_sink_sees(bench):
    run = bench.run(PLAIN.replace("type: ledger", "type: ledger, batch_size: 25"), checkpoint_interval_sec=60)
    (sink,) = run.graph.operators["out"]
    assert sink.calls == [25, 25, 25, 25]


def test_batch_size_is_what_a_transform_sees(bench):
    text = FAN_OUT.replace("type: double", "type: double, batch_size: 40")
    run = bench.run(text, checkpoint_interval_sec=60)
    (transform,) = run.graph.operators["doubled"]
    assert transform.calls == [40, 40, 20]


def test_parallel_instances_share_the_keys_and_lose_nothing(bench):
    text = FAN_OUT.replace("type: double", "type: double, parallelism: 3").replace(
        "twice: {type: ledger", "twice: {type: ledger, parallelism: 2"
    )
    run = bench.run(text)
    assert sorted(bench.ids("twice")) == list(range(100))
    assert len(run.graph.operators["doubled"]) == 3
    assert all(transform.calls for transform in run.graph.operators["doubled"])


def test_a_slow_sink_slows_the_source_and_memory_stays_bounded(bench):
    text = PLAIN.replace("rows: 100", "rows: 1000, ends: false").replace("type: ledger", "type: ledger, delay: 0.05")
    run = bench.start(text, checkpoint_interval_sec=60)
    (sink,) = run.graph.operators["out"]
    eventually(lambda: len(sink.calls) >= 5)
    (source,) = run.operators("numbers")
    # behind the source: what is in the queue, in the sink's hands, and in the flow's
    assert source.rows_read <= 10 * (len(sink.calls) + 5)
    run.stop("enough")
    finish(run)
    assert bench.ids("out") == list(range(bench.state.get("numbers")))


def test_a_stop_finishes_the_batch_in_hand_and_stores_the_position(bench):
    run = bench.start(PLAIN.replace("rows: 100", "rows: 100000, pause: 0.01"))
    eventually(lambda: bench.ids("out"))
    run.stop("SIGTERM")
    finish(run)
    assert bench.ids("out") == list(range(bench.state.get("numbers")))


def test_a_record_limit_ends_an_endless_pipeline(bench):
    bench.run(PLAIN.replace("rows: 100", "rows: 100, ends: false"), num_records_before_stop=30)
    assert bench.ids("out") == list(range(30))
    assert (bench.state.get("numbers") or 0) <= 30


def test_rows_after_a_limit_are_replayed_and_those_before_are_durable(bench):
    endless = PLAIN.replace("rows: 100", "rows: 100, ends: false")
    bench.run(endless, num_records_before_stop=25, checkpoint_interval_sec=60)
    assert bench.ids("out") == list(range(25))
    assert (bench.state.get("numbers") or 0) <= 20


def test_a_transform_that_returns_other_columns_than_declared_is_named(bench):
    with pytest.raises(StreamlingError, match=r"double transform 'doubled': returned columns .*, declared"):
        bench.run(FAN_OUT.replace("type: double", "type: double, honest: false"))


THREE = """
sources:
  numbers: {{type: numbers, rows: 1000000, pause: 0.005, first: {first}, primary_key: id}}
transforms: {{}}
sinks:
  {sink}: {{type: ledger, from: numbers}}
"""


def test_three_pipelines_live_in_one_process_and_one_can_stop(spark):
    benches = [Bench(spark) for _ in range(3)]
    runs = [
        bench.start(THREE.format(first=1000 * n, sink=f"out{n}"), application_id=f"app{n}")
        for n, bench in enumerate(benches)
    ]
    eventually(lambda: all(bench.ids(f"out{n}") for n, bench in enumerate(benches)))
    runs[1].stop("one of three")
    finish(runs[1])
    before = [len(benches[n].ids(f"out{n}")) for n in (0, 2)]
    eventually(lambda: all(len(benches[n].ids(f"out{n}")) > count for n, count in zip((0, 2), before, strict=True)))
    for n in (0, 2):
        runs[n].stop("done")
        finish(runs[n])
        ids = benches[n].ids(f"out{n}")
        assert ids == list(range(1000 * n, 1000 * n + len(ids)))


STREAMED = """
sources:
  ticks: {type: tick, per_second: 500}
transforms: {}
sinks:
  out: {type: memory, from: ticks}
"""


def test_a_streamed_source_is_paced_by_spark_and_its_position_is_stored(bench):
    run = bench.start(STREAMED)
    eventually(lambda: collected_rows(run, "out").num_rows > 500 and bench.state.get("ticks"), 30)
    run.stop("enough")
    finish(run)
    values = collected_rows(run, "out").column("value").to_pylist()
    assert sorted(values) == list(range(len(values)))  # the rate source deals its rows out over partitions
    assert collected_rows(run, "out").column_names == ["timestamp", "value", "_gs_op"]


def test_a_streamed_flow_that_never_rests_can_be_stopped_at_any_moment(bench):
    for _ in range(5):
        run = bench.start(STREAMED.replace("type: tick, per_second: 500", "type: flood"), shutdown_budget_secs=15)
        eventually(lambda run=run: run.rows_written().get("out", 0) > 0, 30)
        run.stop("at some moment")
        finish(run, 20)


ENDLESS = PLAIN.replace("rows: 100", "rows: 50, ends: false")


def received(run) -> int:
    """Rows that have been passed to the sink; they are delivered at the next checkpoint."""
    return sum(rows for sink in run.graph.operators["out"] for rows in sink.calls)


def test_draining_is_the_default_and_stores_the_last_position(bench):
    run = bench.start(ENDLESS, checkpoint_interval_sec=60)
    eventually(lambda: received(run) == 50)
    run.stop("SIGTERM")
    finish(run)
    assert bench.state.get("numbers") == 50


def test_a_fast_exit_leaves_the_tail_for_the_next_start(bench):
    run = bench.start(ENDLESS, checkpoint_interval_sec=60, drain_policy="fast")
    eventually(lambda: received(run) == 50)
    run.stop("SIGTERM")
    finish(run)
    assert bench.state.get("numbers") is None
    bench.run(PLAIN.replace("rows: 100", "rows: 50"))
    assert set(bench.ids("out")) == set(range(50))


def test_a_fast_exit_is_refused_for_bounded_work(bench, caplog):
    run = bench.start(PLAIN.replace("rows: 100", "rows: 100000, pause: 0.01"), drain_policy="fast")
    eventually(lambda: run.rows_written().get("out"))
    run.stop("SIGTERM")
    finish(run)
    assert bench.ids("out") == list(range(bench.state.get("numbers")))
    assert "does not apply to bounded sources" in caplog.text


def test_a_sink_that_never_acknowledges_fails_the_epoch_and_the_pipeline(bench):
    run = bench.prepare(ENDLESS, checkpoint_interval_sec=0.1, checkpoint_timeout_sec=1, shutdown_budget_secs=3)
    run.start()
    (sink,) = run.graph.operators["out"]
    sink.flush = lambda: threading.Event().wait(6)
    with pytest.raises(StreamlingError, match="out"):
        finish(run)
    assert bench.state.get("numbers") is None


def test_a_source_that_cannot_open_is_named(bench):
    class Broken(NumbersSource):
        def open(self) -> None:
            raise OSError("no such device")

    bench.numbers = Broken
    run = bench.start(PLAIN)
    with pytest.raises(StreamlingError, match="numbers source 'numbers'"):
        finish(run)


def test_a_sink_that_fails_in_the_final_checkpoint_is_the_reason_and_nothing_else(bench, caplog):
    run = bench.start(ENDLESS, checkpoint_interval_sec=60)
    eventually(lambda: received(run) == 50)
    (sink,) = run.graph.operators["out"]

    def fail() -> None:
        raise StreamlingError.user("the table was dropped")

    sink.flush = fail
    run.stop("SIGTERM")
    with pytest.raises(StreamlingError) as caught:
        finish(run)
    assert str(caught.value) == "ledger sink 'out': the table was dropped"
    assert "final checkpoint" not in caplog.text


def test_a_final_checkpoint_that_is_late_names_who_it_waits_for(bench):
    run = bench.start(ENDLESS, checkpoint_interval_sec=60, shutdown_budget_secs=2)
    eventually(lambda: received(run) == 50)
    (sink,) = run.graph.operators["out"]
    released = threading.Event()
    sink.flush = released.wait
    run.stop("SIGTERM")
    with pytest.raises(StreamlingError, match=r"final checkpoint was not completed within 1 s: waiting for sink 'out'"):
        finish(run)
    released.set()


# ── what a process with several runs needs ──────────────────────────────────────────────────────────────────────

WAITING = PLAIN.replace("rows: 100", "rows: 100, ends: false")


def test_spark_settings_of_a_run_apply_to_its_own_session(bench):
    text = """
sources:
  numbers: {type: numbers, rows: 1, primary_key: id}
transforms:
  zones: {type: sql, primary_key: id, sql: "SELECT id, current_timezone() AS zone FROM numbers"}
sinks:
  out: {type: memory, from: zones}
"""

    def zone(**settings) -> str:
        run = bench.prepare(text, spark_settings=settings)
        run.start()
        finish(run)
        return collected_rows(run, "out").column("zone").to_pylist()[0]

    assert zone(**{"spark.sql.session.timeZone": "Asia/Tokyo"}) == "Asia/Tokyo"
    bench.state.clear()
    assert zone() == "UTC"


@pytest.mark.parametrize("end", ["the source ends", "a sink fails", "it is stopped"])
def test_the_listener_hears_that_there_is_something_to_wait_for(bench, end):
    text = {"the source ends": PLAIN, "a sink fails": PLAIN.replace("type: ledger", "type: ledger, fail_at: 5")}
    run, finished = bench.prepare(text.get(end, WAITING)), threading.Event()
    run.on_finish(finished.set)
    run.start()
    if end == "it is stopped":
        eventually(lambda: bench.ids("out"))
        assert not finished.is_set()
        run.stop("enough")
    assert finished.wait(20)
    with suppress(StreamlingError):
        finish(run)


def test_a_checkpoint_can_be_requested(bench):
    run = bench.start(WAITING, checkpoint_interval_sec=3600)
    assert run.epoch is None
    eventually(lambda: run.status().rows_in == 100)
    assert run.checkpoint(20)
    assert run.epoch is not None
    assert bench.state.get("numbers") == 100
    run.stop("enough")
    finish(run)


def test_a_run_names_its_parts_that_have_not_ended(bench):
    run = bench.start(PLAIN.replace("type: ledger", "type: ledger, delay: 2"), shutdown_budget_secs=0.2)
    eventually(lambda: run.status().rows_in)
    run.stop("enough")
    with pytest.raises(StreamlingError):
        finish(run)
    assert "ledger sink 'out'" in run.graph.busy_parts()
    eventually(lambda: run.graph.busy_parts() == [])


def test_a_pipeline_without_new_rows_makes_no_checkpoints(bench):
    text = PLAIN.replace("rows: 100", "rows: 100, ends: false")
    run = bench.start(text, checkpoint_interval_sec=0.01)
    eventually(lambda: bench.state.get("numbers") == 100)
    assert run.checkpoint(30)
    epoch = run.epoch
    assert not threading.Event().wait(0.5)  # fifty intervals
    assert run.epoch == epoch
    assert run.checkpoint(30)  # on request
    assert run.epoch == epoch + 1
    run.stop("the test wants it")
    finish(run)
