"""Phases are parsed from the output of `--timings`."""

from __future__ import annotations

from benchmarks.startup import phases_of

from streamling.spark.jvm.timings import TimedPhase, Timings


def test_phases_and_moments_of_a_report_are_found():
    moments = iter([0.1, 0.2, 0.7, 3.0])
    timings = Timings(started=0.0, clock=lambda: next(moments))
    timings.mark("command line read")
    with timings.phase("read configuration and pipeline"):
        pass
    timings.mark("first rows at a sink")
    report = f"12:00:00.000 INFO  1500 ms outside the table\n{timings.table()}\n"
    assert phases_of(report) == [
        TimedPhase("command line read", 0.1, 0.1),
        TimedPhase("read configuration and pipeline", 0.2, 0.7),
        TimedPhase("first rows at a sink", 3.0, 3.0),
    ]
