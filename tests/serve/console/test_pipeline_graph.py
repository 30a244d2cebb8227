"""The drawing of a pipeline in a real browser: where it is slow, and how many nodes look."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.engine.dataflow.test_sql_flows import pipeline, sql
from tests.harness.pipelines import Bench, finish
from tests.serve.admin.serving import serving
from tests.serve.console.chromium import browser as started_browser
from tests.serve.console.visit import Visit, visiting

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ENDLESS = "numbers: {type: numbers, rows: 1000000, batch: 10, primary_key: id}"
#: nodes without sinks; each has a sink of its own
HALF = 50
WIDTH = "document.querySelector('[data-node=numbers]').getBoundingClientRect().width"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@contextmanager
def watching(browser: Browser, spark: Any, text: str, **look: Any) -> Iterator[Visit]:
    """The console of a run on the session of the tests."""
    run = Bench(spark).start(text, checkpoint_interval_sec=60)
    try:
        with serving(run) as api, visiting(browser, f"http://127.0.0.1:{api.port}", **look) as visit:
            visit.open()
            yield visit
    finally:
        run.stop("the test is over", True)
        finish(run)


@pytest.mark.parametrize(
    ("slow", "text", "statuses"),
    [
        (
            "out",
            pipeline(sql("high", "SELECT * FROM numbers"), "out: {type: ledger, from: high, delay: 2.0}", ENDLESS),
            {"numbers": "blocked", "high": "blocked", "out": "ok"},
        ),
        (
            "twice",
            pipeline("twice: {type: double, from: numbers, delay: 1.0}", "out: {type: ledger, from: twice}", ENDLESS),
            {"numbers": "blocked", "twice": "ok", "out": "starved"},
        ),
        (
            "numbers",
            pipeline(
                "twice: {type: double, from: numbers}",
                "out: {type: ledger, from: twice}",
                ENDLESS.replace("}", ", pause: 0.5}"),
            ),
            {"numbers": "ok", "twice": "starved", "out": "starved"},
        ),
    ],
    ids=["slow sink", "slow transform", "slow source"],
)
def test_the_slow_node_is_the_busy_one(browser, spark, slow, text, statuses):
    with watching(browser, spark, text) as visit:
        for name, status in statuses.items():
            expect(visit.page.locator(f'[data-node="{name}"]')).to_have_class(re.compile(rf"\b{status}\b"))
        shares = visit.page.locator(f'[data-node="{slow}"] .shares')
        expect(shares).to_have_attribute("aria-label", re.compile(r"^busy ([6-9]\d|100) %"))


def test_a_running_epoch_shows_how_long_its_phase_has_taken(browser, spark):
    text = pipeline(sql("high", "SELECT * FROM numbers"), "out: {type: ledger, from: high, delay: 4.0}", ENDLESS)
    with watching(browser, spark, text) as visit:
        visit.page.get_by_role("button", name="Checkpoint").click()
        visit.page.get_by_role("tab", name="Epochs").click()
        phases = visit.page.get_by_role("region", name="Epochs", exact=True).get_by_role("img").first
        expect(phases).to_have_attribute("aria-label", re.compile(r"^(mark|mark [\d.]+ \w+, flush) \d.* so far"))
        expect(phases.locator(".phase:visible").first).to_be_visible()


def test_a_hundred_nodes_do_not_overlap_and_stay_inside_the_page(browser, spark):
    """A source and SQL nodes of which each has two consumers, and a sink for each of them."""
    names = ["numbers", *(f"step_{number:02}" for number in range(1, HALF))]
    steps = [sql(name, f"SELECT * FROM {names[number // 2]}") for number, name in enumerate(names[1:], 1)]
    sinks = "\n".join(f"out_{name}: {{type: blackhole, from: {name}}}" for name in names)
    text = pipeline("\n".join(steps), sinks, "numbers: {type: numbers, rows: 10, batch: 10, primary_key: id}")
    with watching(browser, spark, text) as visit:
        nodes = visit.page.locator(".node")
        expect(nodes).to_have_count(2 * HALF)
        expect(visit.page.locator('[data-node="numbers"]')).to_be_in_viewport()
        boxes = visit.page.evaluate(
            "[...document.querySelectorAll('.node')].map((node) => {"
            " const box = node.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"
        )
        overlapping = [
            (a, b)
            for number, a in enumerate(boxes)
            for b in boxes[:number]
            if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
        ]
        assert overlapping == []
        assert not visit.is_too_wide()
        nodes.last.click()
        expect(visit.page.get_by_role("complementary")).to_be_visible()
        visit.page.set_viewport_size({"width": 375, "height": 740})
        expect(nodes).to_have_count(2 * HALF)
        assert not visit.is_too_wide()


def test_a_large_graph_is_zoomed_searched_and_overviewed(browser, spark):
    names = [f"step_{number:02}" for number in range(40)]
    steps = [sql(name, f"SELECT * FROM {before}") for before, name in zip(["numbers", *names], names, strict=False)]
    text = pipeline("\n".join(steps), f"out: {{type: ledger, from: {names[-1]}}}", ENDLESS)
    with watching(browser, spark, text) as visit:
        page = visit.page
        graph = page.get_by_role("region", name="Graph")
        first, last = page.locator('[data-node="numbers"]'), page.locator('[data-node="out"]')
        expect(first).to_be_in_viewport()
        expect(last).not_to_be_in_viewport()
        page.get_by_label("Find a node").fill("out")
        expect(last).to_be_in_viewport()
        expect(last).to_have_class(re.compile("found"))
        page.get_by_label("Find a node").press("Enter")
        expect(page.get_by_role("heading", name="out", exact=True)).to_be_visible()
        page.keyboard.press("Escape")

        page.get_by_role("button", name="Show the whole graph").click()
        expect(first).to_be_in_viewport()
        expect(last).to_be_in_viewport()
        small = first.bounding_box()["width"]
        graph.focus()
        page.keyboard.press("+")
        page.keyboard.press("+")
        page.wait_for_function(f"{WIDTH} > {1.4 * small}")
        page.keyboard.press("0")
        expect(last).to_be_in_viewport()
        page.get_by_role("button", name="Zoom in").click()
        before = first.bounding_box()["width"]
        graph.hover()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -100)
        page.keyboard.up("Control")
        page.wait_for_function(f"{WIDTH} > {1.2 * before}")

        for _ in range(6):
            page.get_by_role("button", name="Zoom in").click()
        map = page.locator(".minimap")
        width = map.bounding_box()["width"]
        map.click(position={"x": 8, "y": 8})
        expect(first).to_be_in_viewport()
        map.click(position={"x": width - 16, "y": 8})
        expect(last).to_be_in_viewport()
        assert visit.violations() == []
