"""Table, JSON, page and chart of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from benchmarks.chart import chart
from benchmarks.figures import Figure, Goal, Machine, Results, Unit
from benchmarks.report import HEADINGS, as_json, from_json, page, rows, write_page
from benchmarks.sizes import QUICK

from streamling.spark.jvm.timings import TimedPhase


@pytest.fixture
def results() -> Results:
    machine = Machine("Linux", "a processor", 2, 24.0, {"PySpark": "4.2.1"}, 0.1)
    figures = [
        Figure("start-up", "first row", Unit.SECONDS, [3.0, 3.2, 3.1], [9.0, 9.9, 9.3], goal=Goal(bound=5, ratio=0.5)),
        Figure("validate", "file with a mistake", Unit.SECONDS, [0.6], goal=Goal(bound=0.5)),
        Figure("throughput", "csv → SQL", Unit.MILLION_ROWS, [1.0], [2.0], compared_with="PySpark on our JVM"),
    ]
    phases = [TimedPhase("import PySpark", 0.5, 1.0), TimedPhase("first rows at a sink", 3.0, 3.0)]
    return Results("2024-05-06", machine, QUICK, figures, {"a start": phases}, ["A remark."])


def test_a_row_gives_the_ratio_the_median_and_the_best(results):
    assert rows(results)[0] == (
        "start-up",
        "first row",
        "0.33 ×",
        "3.10 s (3.00)",
        "9.30 s (9.00)",
        "PySpark",
        "≤ 5.00 s, ≤ 0.5 ×",
        "met",
    )


def test_a_figure_without_counterpart_has_empty_cells(results):
    assert rows(results)[1] == ("validate", "file with a mistake", "", "0.60 s", "", "", "≤ 0.50 s", "missed")


def test_json_holds_every_sample(results):
    content = json.loads(as_json(results))
    assert content["figures"][0]["ours"] == [3.0, 3.2, 3.1]
    assert content["figures"][0]["verdict"] == "met"
    assert content["figures"][2]["unit"] == "M rows/s"
    assert content["phases"]["a start"][0] == {"name": "import PySpark", "start": 0.5, "end": 1.0}


def test_json_can_be_read_back(results):
    again = from_json(as_json(results))
    assert json.loads(as_json(again)) == json.loads(as_json(results))
    assert rows(again) == rows(results)


def test_remeasured_scenarios_keep_their_position_and_are_listed(results):
    figures = [
        Figure("validate", "file with a mistake", Unit.SECONDS, [0.4]),
        Figure("idle", "quickstart", Unit.CORE, [1]),
    ]
    renewed = results.renewed(replace(results, date="2024-05-07", figures=figures, phases={}, notes=[]))
    assert [figure.scenario for figure in renewed.figures] == ["start-up", "validate", "throughput", "idle"]
    assert renewed.figures[1].ours == [0.4]
    assert (renewed.date, list(renewed.phases)) == ("2024-05-07", ["a start"])
    assert renewed.notes == ["Measured in a separate run, after the others: validate, idle."]


def test_the_page_has_table_phases_machine_and_remarks(results):
    text = page(results, "chart.svg")
    assert f"| {' | '.join(HEADINGS)} |" in text
    assert "### A start\n" in text
    assert "| 1000 ms | 500 ms | import PySpark |" in text
    assert "| PySpark | 4.2.1 |" in text
    assert "A remark." in text
    assert "](chart.svg)" in text


def test_the_chart_shows_what_is_compared_and_every_phase(results):
    words = [
        text.text or "" for text in ElementTree.fromstring(chart(results)).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert "start-up: first row" in words
    assert "throughput: csv → SQL (PySpark on our JVM)" in words
    assert "2.00" in words, "half the rows per second cost twice as much"
    assert not any("validate" in word for word in words)
    assert {"Where the time of a start goes", "import PySpark", "first rows at a sink"} <= set(words)


def test_page_and_chart_are_in_the_same_folder(results, tmp_path):
    write_page(results, tmp_path / "docs" / "benchmarks.md")
    assert "](benchmarks.svg)" in (tmp_path / "docs" / "benchmarks.md").read_text()
    assert (tmp_path / "docs" / "benchmarks.svg").is_file()


def test_without_comparisons_the_chart_is_empty(results):
    bare = Results(results.date, results.machine, QUICK, results.figures[1:2])
    assert ElementTree.fromstring(chart(bare)).tag.endswith("svg")
