"""Progress of a running pipeline: a status line on a real terminal, a summary in the log elsewhere."""

from __future__ import annotations

import io
import logging
import re
import signal
import sys

import pytest

from streamling.cli.watch import Rates, bar, duration, show_progress, status_parts
from streamling.engine.run.status import RunStatus
from streamling.observe.terminal.status_line import can_show_status
from streamling.plugins.sources import Progress
from tests.cli.conftest import PIPELINE, Project, clean_environment, command_environment, command_line
from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, eventually, finish
from tests.harness.terminal import Terminal

CONTINUOUS = PIPELINE.replace("{type: bounded}", "{type: continuous, poll_interval: 100ms}")
STATUS = r"in [\d,]+ rows/s · out [\d,]+ rows/s · 2 rows delivered · checkpoint \d s ago"


def _terminal(project: Project, **env: str) -> Terminal:
    env = {**command_environment(), "PYTHONUTF8": "1", "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.5", **env}
    return Terminal(command_line("pipeline.yaml"), cwd=project.folder, env=env)


@pytest.mark.spark
def test_the_status_line_is_below_rows_and_log_lines_and_removed_at_the_end(tmp_path):
    project = Project(tmp_path)
    project.write("pipeline.yaml", CONTINUOUS)
    with _terminal(project, STREAMLING__ADMIN_API_ENABLED="false") as terminal:
        terminal.wait_for(STATUS)
        project.write("orders/b.csv", "id,item,price\n4,milk,9\n")
        terminal.wait_for("3 rows delivered")
        before = terminal.screen()
        assert terminal.end(signal.SIGINT) == 0
        after = terminal.screen()
    assert "3 rows delivered" in before[-1]
    assert [re.sub(r"^[\d:.]+ ", "", line) for line in after] == [
        "INFO  pipeline.yaml is running (pipeline)",
        '+I {"id":1,"item":"tea","price":3.0,"_gs_op":"i"}',
        '+I {"id":3,"item":"rice","price":5.0,"_gs_op":"i"}',
        '+I {"id":4,"item":"milk","price":18.0,"_gs_op":"i"}',
        "INFO  finished: SIGINT; rows: 3 to screen",
    ]


@pytest.mark.spark
def test_between_json_logs_nothing_is_drawn(tmp_path):
    project = Project(tmp_path)
    with _terminal(project, STREAMLING__LOG_FORMAT="json") as terminal:
        assert terminal.end() == 0
        assert "rows/s" not in terminal.sent
        assert "\x1b[K" not in terminal.sent
        assert "finished; rows: 2 to screen" in terminal.sent


def test_only_a_terminal_that_can_erase_has_a_status_line(tmp_path, monkeypatch):
    script = (
        "import sys\nfrom streamling.observe.terminal.status_line import can_show_status\n"
        "print(can_show_status(sys.stderr))"
    )
    for term, expected in (("xterm", "True"), ("dumb", "False")):
        env = {**clean_environment(), "TERM": term}
        with Terminal([sys.executable, "-c", script], cwd=tmp_path, env=env) as terminal:
            terminal.end()
            assert terminal.screen() == [expected]
    monkeypatch.setenv("TERM", "xterm")
    assert not can_show_status(io.StringIO())
    assert not can_show_status(None)


def test_other_output_is_above_the_line(tmp_path):
    """Also in pieces, and the line is truncated at the width of the terminal."""
    script = """
import sys, time
from streamling.observe.terminal.streams import safe_streams, terminal_of
from streamling.observe.terminal.status_line import status_line
with safe_streams(), status_line(terminal_of(sys.stderr)) as line:
    line.show("status 1 " + "x" * 200)
    print("a whole line", file=sys.stderr)
    print("begun", end="", file=sys.stderr)
    line.show("status 2")
    print(" and ended", file=sys.stderr)
    sys.stderr.flush()
    line.show("status 3")
    print("last", file=sys.stdout, flush=True)
    time.sleep(0.1)
    sys.stdin.readline()
"""
    with Terminal([sys.executable, "-c", script], cwd=tmp_path, env=clean_environment(), columns=40) as terminal:
        terminal.wait_for("last")
        eventually(lambda: terminal.screen()[-1:] == ["status 3"])
        assert terminal.screen() == ["a whole line", "begun and ended", "last", "status 3"]
        assert not re.search("x{40}", terminal.sent)


@pytest.mark.spark
def test_the_log_has_a_periodic_summary(spark, caplog):
    caplog.set_level(logging.INFO)
    bench = Bench(spark)
    source = "numbers: {type: numbers, rows: 1000000, ends: false, pause: 0.001, primary_key: id}"
    run = bench.start(pipeline(sql("same", "SELECT id FROM numbers"), "out: {type: blackhole, from: same}", source))
    with show_progress(run, summary_seconds=0.05):
        eventually(lambda: any(re.search("[1-9][0-9,]* rows delivered", text) for text in caplog.messages), 60)
        run.stop("enough")
        finish(run)
    (line, *_) = [text for text in caplog.messages if re.search("[1-9][0-9,]* rows delivered", text)]
    assert re.fullmatch(
        r"running for \d+ s: in [\d,]+ rows/s, out [\d,]+ rows/s, [\d,]+ rows delivered, "
        r"(no checkpoint yet|checkpoint \d+ s ago)",
        line,
    )


# ── what is said ─────────────────────────────────────────────────────────────────────────────────────────────


def _rates(*statuses: RunStatus, seconds: float = 10) -> Rates:
    rates = Rates(seconds)
    for number, status in enumerate(statuses):
        rates.add(number, status)
    return rates


def _facts(*statuses: RunStatus, seconds: float = 10) -> str:
    return ", ".join(status_parts(statuses[-1], _rates(*statuses, seconds=seconds)))


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (RunStatus(), "out 0 rows/s, 0 rows delivered, no checkpoint yet"),
        (RunStatus(rows_in=0, rows_out=1), "in 0 rows/s, out 0 rows/s, 1 row delivered, no checkpoint yet"),
        (
            RunStatus(rows_in=5_000_000, rows_out=4_999_999, dead_letters=1, lag=12_345, checkpoint_age=61),
            "in 0 rows/s, out 0 rows/s, 4,999,999 rows delivered, 1 dead letter, lag 12,345, checkpoint 1 min ago",
        ),
        (
            RunStatus(dead_letters=2000, lag=0, checkpoint_age=0.2),
            "out 0 rows/s, 0 rows delivered, 2,000 dead letters, lag 0, checkpoint 0 s ago",
        ),
    ],
)
def test_only_known_facts_are_shown(status, said):
    assert _facts(status) == said


def test_rates_are_those_of_the_last_seconds():
    statuses = [RunStatus(rows_in=rows, rows_out=rows // 2) for rows in (0, 1000, 1400, 1800)]
    assert _facts(*statuses, seconds=2).startswith("in 400 rows/s, out 200 rows/s")
    assert _facts(*statuses, seconds=0).startswith("in 400 rows/s, out 200 rows/s")
    assert _facts(*statuses, seconds=60).startswith("in 600 rows/s, out 300 rows/s")


def test_bounded_work_has_a_bar():
    status = RunStatus(progress=Progress(1, 4, "files"))
    assert list(bar(status, _rates(status))) == ["[██········] 1/4 files (25%)"]
    assert list(bar(status, _rates(status), unicode=False)) == ["[##........] 1/4 files (25%)"]
    assert list(bar(RunStatus(), _rates(RunStatus()))) == []


def test_the_bar_shows_the_time_left_and_the_part_of_the_work():
    statuses = [RunStatus(progress=Progress(done, 10_000, part="orders (2 of 3)")) for done in (1000, 1500, 2000)]
    assert list(bar(statuses[-1], _rates(*statuses))) == [
        "[██········] orders (2 of 3): 2,000/10,000 rows (20%, 16 s left)"
    ]


def test_the_time_left_is_that_of_the_current_part():
    numbers = (("a", 900, 1000), ("b", 0, 5000), ("b", 100, 5000), ("b", 200, 5000))
    statuses = [RunStatus(progress=Progress(done, total, part=part)) for part, done, total in numbers]
    assert list(bar(statuses[1], _rates(*statuses[:2]))) == ["[··········] b: 0/5,000 rows (0%)"]
    assert list(bar(statuses[-1], _rates(*statuses))) == ["[··········] b: 200/5,000 rows (4%, 48 s left)"]


def test_more_rows_than_expected_are_not_more_than_everything():
    statuses = [RunStatus(progress=Progress(*numbers)) for numbers in ((900, 1000), (1100, 1000))]
    assert list(bar(statuses[-1], _rates(*statuses))) == ["[██████████] 1,100/1,000 rows (100%)"]


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min"), (3599, "59 min"), (12_000, "3 h 20 min"), (442_800, "5 d 3 h")],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
