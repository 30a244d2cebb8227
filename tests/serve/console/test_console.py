"""The console in a real browser, with real pipelines."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from streamling.serve.console import app as console_app
from tests.serve.console import single_run
from tests.serve.console.chromium import browser as started_browser
from tests.serve.console.fleet import ADMIN, CROWD, OPERATOR, SCRIPT, VIEWER, Fleet, orders, start
from tests.serve.console.single_run import running
from tests.serve.console.visit import Visit, visiting
from tests.serve.processes import children
from tests.serve.test_preview import preview

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TEMPLATES = Path(console_app.__file__).with_name("static") / "templates"
PIPELINES = 500
#: the largest response that the console may cause
LARGEST = 200_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with started_browser() as started:
        yield started


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    started = start(tmp_path_factory.mktemp("fleet"), PIPELINES)
    yield started
    started.server.kill()


@pytest.fixture(scope="module")
def shared_visit(browser: Browser, fleet: Fleet) -> Iterator[Visit]:
    with visiting(browser, fleet.address, token=OPERATOR) as opened:
        yield opened


@pytest.fixture
def visit(shared_visit: Visit) -> Iterator[Visit]:
    """One page for many tests, as a user has one: a new one takes a second of CPU time."""
    shared_visit.leave()  # the screen of the last test
    yield shared_visit
    shared_visit.check()


def row(page: Page, name: str):
    return page.get_by_role("row").filter(has=page.get_by_role("link", name=name, exact=True))


def node(page: Page, name: str):
    return page.locator(f'[data-node="{name}"]')


# ── access ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_token_is_asked_for_and_stays_in_the_tab(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address) as visit:
        page = visit.open()
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("alert")).to_have_text("The server did not accept this token.")
        assert visit.violations() == []
        token = page.locator("input[type=password]")
        token.fill(OPERATOR)
        page.get_by_role("button", name="Continue").click()
        expect(row(page, "orders")).to_be_visible()
        assert page.evaluate("localStorage.length") == 0
        page.reload()
        expect(row(page, "orders")).to_be_visible()
        page.get_by_role("button", name="Forget the token").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


# ── the list ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_list_shows_state_and_error_and_can_be_searched(visit: Visit) -> None:
    page = visit.open()
    expect(row(page, "orders")).to_contain_text("running")
    expect(row(page, "archive")).to_contain_text("paused")
    expect(row(page, "unreachable")).to_contain_text("Connection refused")
    page.get_by_label("Search pipelines").fill("arch")
    expect(page.get_by_role("row")).to_have_count(2)  # with the header
    page.get_by_label("Search pipelines").fill("nothing like this")
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("button", name=re.compile("^Paused")).click()
    expect(row(page, "archive")).to_be_visible()
    expect(row(page, "orders")).to_have_count(0)


def test_pipelines_are_paused_resumed_and_restarted(visit: Visit, fleet: Fleet) -> None:
    page = visit.open()
    page.get_by_role("button", name="Resume archive").click()
    expect(row(page, "archive")).to_contain_text("running")
    page.get_by_role("button", name="Restart archive").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart pipeline").click()
    expect(page.get_by_role("status")).to_contain_text("archive restarts")
    page.get_by_role("button", name="Pause archive").click()
    expect(row(page, "archive")).to_contain_text("paused")
    assert fleet.operator.pipeline("archive")["desired"] == "paused"


def test_a_pipeline_is_created_changed_and_deleted(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/new")
    page.get_by_role("button", name=re.compile("Kafka with dead letters")).click()
    expect(page.get_by_text("No problems found.")).to_be_visible()
    assert visit.violations() == []
    editor = page.get_by_role("textbox", name="Pipeline file")
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("    evol")
    page.get_by_role("option", name="evolve").click()
    page.keyboard.type("sideways")
    expect(page.get_by_text("1 problem")).to_be_visible()
    expect(page.get_by_role("button", name="Create pipeline")).to_be_disabled()
    page.get_by_role("button", name=re.compile("^Line")).click()
    expect(editor).to_be_focused()
    for _ in "sideways":
        page.keyboard.press("Control+End")
        page.keyboard.press("Backspace")
    page.keyboard.type("add_columns")
    page.get_by_label("Name", exact=True).fill("letters")
    page.get_by_label("After saving").select_option("paused")
    page.get_by_role("button", name="Create pipeline").click()
    expect(page.get_by_role("heading", name="letters")).to_be_visible()
    assert "evolve: add_columns" in fleet.operator.pipeline("letters")["definition"]

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Size").select_option("s")
    page.get_by_role("button", name="Save and restart").click()
    expect(page.get_by_text("size s")).to_be_visible()

    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete pipeline")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.get_by_role("button", name="Delete").click()
    dialog.get_by_label(re.compile("to confirm")).fill("letters")
    assert visit.violations() == []
    dialog.get_by_role("button", name="Delete pipeline").click()
    expect(page.get_by_role("heading", name="Pipelines")).to_be_visible()
    expect(row(page, "orders")).to_be_visible()
    fleet.server.eventually(lambda: fleet.operator.state("letters") == "absent")
    expect(row(page, "letters")).to_have_count(0)


def test_a_definition_can_be_tried_without_its_sinks(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/new")
    page.get_by_role("textbox", name="Pipeline file").click()
    page.keyboard.insert_text(orders(fleet.data))
    expect(page.get_by_text("No problems found.")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview")
    table = preview.get_by_role("region", name="Rows of large_orders")
    expect(table.get_by_role("row", name=re.compile("insert.*Mei Tanaka"))).to_be_visible(timeout=120_000)
    preview.get_by_role("button", name="Stop").click()
    expect(preview.get_by_role("status")).to_contain_text("Nothing was written")
    expect(preview.get_by_role("heading", name="rated")).to_contain_text("script transform")
    expect(table.get_by_text(SCRIPT, exact=True)).to_be_visible()
    assert page.locator("img[src=x]").count() == 0
    assert visit.violations() == []

    page.get_by_role("textbox", name="Pipeline file").click()
    page.keyboard.press("Control+A")
    page.keyboard.press("Backspace")
    page.keyboard.insert_text(orders(fleet.data / "nothing"))
    page.get_by_role("button", name="Preview").click()
    expect(preview.get_by_role("alert")).to_contain_text("nothing", timeout=120_000)


def templates_without_services() -> list[str]:
    listed = json.loads((TEMPLATES / "index.json").read_text(encoding="utf-8"))
    return [template["file"] for template in listed if "no service" in template["text"]]


@pytest.mark.parametrize("file", templates_without_services())
def test_a_template_that_needs_no_service_is_valid_and_shows_rows(fleet: Fleet, file: str) -> None:
    definition = (TEMPLATES / file).read_text(encoding="utf-8")
    checked = fleet.operator.post("/validate", {"definition": definition})
    assert checked.json["problems"] == []
    status, events = preview(fleet.operator, definition, "duration_seconds=30&rows=3")
    assert status == 200
    nodes = {node["name"] for name, data in events if name == "nodes" for node in data}
    assert {data["topology_node_key"] for name, data in events if name == "message"} == nodes


def test_the_first_template_needs_no_service(visit: Visit) -> None:
    assert templates_without_services()
    page = visit.open("#/new")
    page.get_by_role("region", name="Templates").get_by_role("button").first.click()
    expect(page.get_by_text("No problems found.")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    rows = page.get_by_role("region", name="Rows of large_orders").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("insert", timeout=120_000)


# ── text that has not been saved ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("label", "key", "wrong", "right"),
    [
        ("Name", "name", ["Orders", "two words", "-x", "x.", "a/b", "ä", "x" * 129], ["o", "eu.orders_2-b", "x" * 128]),
        ("Namespace", "namespace", ["Shop", "shop.eu", "shop_eu", "-", "x" * 64], ["s", "shop-eu", "x" * 63]),
    ],
)
def test_names_are_checked_beside_their_field(
    visit: Visit, fleet: Fleet, label: str, key: str, wrong: list[str], right: list[str]
) -> None:
    page = visit.open("#/new")
    page.get_by_role("button", name=re.compile("Made-up")).click()
    field, create = page.get_by_label(label, exact=True), page.get_by_role("button", name="Create pipeline")
    expect(create).to_be_enabled()
    for value in wrong:
        field.fill(value)
        expect(field).to_have_accessible_description(re.compile("^Expected lower-case letters, digits"))
        expect(create).to_be_disabled()
        refused = fleet.operator.post("/pipelines", {"name": "n", "definition": "", key: value})
        assert f"the {key} {value!r} is invalid" in refused.text, "the form refuses what the server accepts"
    assert visit.violations() == []
    for value in right:
        field.fill(value)
        expect(field).to_have_accessible_description("")
        expect(create).to_be_enabled()
    field.fill("")
    expect(create).to_be_disabled()


def type_into_editor(page: Page, text: str) -> None:
    """Type at the beginning."""
    page.get_by_role("textbox", name="Pipeline file").click()
    page.keyboard.press("Control+Home")
    page.keyboard.insert_text(text)


def test_a_template_replaces_changed_text_only_after_a_question(visit: Visit) -> None:
    page = visit.open("#/new")
    editor, name = page.get_by_role("textbox", name="Pipeline file"), page.get_by_label("Name", exact=True)
    made_up, letters = (page.get_by_role("button", name=re.compile(text)) for text in ("Made-up", "dead letters"))
    letters.click()
    expect(name).to_have_value("dead-letters")
    made_up.click()  # nothing to lose
    expect(editor).to_contain_text("generate")
    expect(name).to_have_value("made-up-orders")
    type_into_editor(page, "# mine\n")
    letters.click()
    dialog = page.get_by_role("dialog", name="Replace your text?")
    expect(dialog).to_be_visible()
    assert visit.violations() == []
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(editor).to_contain_text("# mine")
    letters.click()
    dialog.get_by_role("button", name="Replace the text").click()
    expect(editor).not_to_contain_text("# mine")
    editor.click()
    page.keyboard.press("Control+z")
    expect(editor).to_contain_text("# mine")


@pytest.mark.parametrize("screen", ["#/new", "#/pipelines/default/archive/edit"], ids=["new", "edit"])
def test_leaving_changed_text_is_a_question(visit: Visit, screen: str) -> None:
    page = visit.open(screen)
    expect(page.get_by_role("textbox", name="Pipeline file")).to_be_visible()
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Pipelines").click()
    expect(row(page, "orders")).to_be_visible()  # nothing to lose

    visit.open(screen)
    type_into_editor(page, "# mine\n")
    dialog = page.get_by_role("dialog", name="Leave without saving?")
    for leave in (page.get_by_role("link", name="Cancel").click, lambda: page.evaluate("history.back()")):
        leave()
        expect(dialog).to_be_visible()
        expect(page).to_have_url(re.compile(f"{screen}$"))
        dialog.get_by_role("button", name="Cancel").click()
        expect(dialog).to_have_count(0)
        expect(page.get_by_role("textbox", name="Pipeline file")).to_contain_text("# mine")
    page.evaluate("history.back()")
    dialog.get_by_role("button", name="Leave without saving").click()
    expect(row(page, "orders")).to_be_visible()

    page.evaluate("history.forward()")
    expect(page.get_by_role("button", name="Preview")).to_be_visible()
    expect(page.get_by_text("restored")).to_have_count(0)
    expect(page.get_by_role("textbox", name="Pipeline file")).not_to_contain_text("# mine")


def test_a_reload_asks_and_keeps_the_text(visit: Visit) -> None:
    page = visit.open("#/new")
    type_into_editor(page, "# mine\n")
    page.get_by_label("Name", exact=True).fill("kept")
    before = visit.questions
    page.reload()
    assert visit.questions == before + 1
    editor = page.get_by_role("textbox", name="Pipeline file")
    expect(editor).to_contain_text("# mine")
    expect(page.get_by_label("Name", exact=True)).to_have_value("kept")
    expect(page.get_by_text("Your unsaved changes were restored.")).to_be_visible()
    assert visit.violations() == []
    page.get_by_role("button", name="Discard them").click()
    expect(editor).not_to_contain_text("# mine")
    page.reload()
    expect(page.get_by_role("button", name="Preview")).to_be_visible()
    expect(page.get_by_text("restored")).to_have_count(0)
    assert visit.questions == before + 1


def test_a_token_that_expires_does_not_lose_the_text(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address, token=OPERATOR) as visit:
        page = visit.open("#/new")
        type_into_editor(page, "# mine\n")
        page.evaluate("sessionStorage.setItem('streamling.token', 'expired-0123456789')")
        type_into_editor(page, "# too\n")
        token = page.locator("input[type=password]")
        token.fill(OPERATOR)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("textbox", name="Pipeline file")).to_contain_text("mine")
        page.get_by_role("button", name="Forget the token").click()
        page.get_by_role("button", name="Leave without saving").click()
        token.fill(CROWD)
        page.get_by_role("button", name="Continue").click()
        expect(page.get_by_role("textbox", name="Pipeline file")).not_to_contain_text("mine")


def test_a_restored_draft_does_not_overwrite_a_later_version(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/pipelines/default/archive/edit")
    type_into_editor(page, "# mine\n")
    known = fleet.operator.pipeline("archive")
    body = {name: known[name] for name in ("definition", "config", "isolation", "desired")} | {"size": "xl"}
    assert fleet.operator.request("PUT", "/pipelines/default/archive", body, {"If-Match": known["etag"]}).status == 200
    page.reload()
    expect(page.get_by_text("Your unsaved changes were restored.")).to_be_visible()
    page.get_by_role("button", name="Save and restart").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed this pipeline")
    assert fleet.operator.pipeline("archive")["size"] == "xl"


def test_a_change_by_somebody_else_is_not_overwritten(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/pipelines/default/archive/edit")
    expect(page.get_by_text("No problems found.")).to_be_visible()
    known = fleet.operator.pipeline("archive")
    body = {name: known[name] for name in ("definition", "config", "isolation", "desired")} | {"size": "l"}
    put = fleet.operator.request("PUT", "/pipelines/default/archive", body, {"If-Match": known["etag"]})
    assert put.status == 200
    page.get_by_role("button", name="Save and restart").click()
    expect(page.get_by_role("alert")).to_contain_text("Somebody else has changed this pipeline")
    assert fleet.operator.pipeline("archive")["size"] == "l"


def test_only_the_own_namespaces_are_shown_and_only_running_pipelines_have_rows(fleet: Fleet) -> None:
    for part in (
        "topology",
        "history",
        "topology/events",
        "epochs",
        "live-data?topology_node_keys=rated",
        "dead-letters",
    ):
        assert fleet.crowd.get(f"/pipelines/default/orders/{part}").status == 404
    for part in ("topology/events", "epochs", "live-data?topology_node_keys=rated", "dead-letters"):
        refused = fleet.operator.get(f"/pipelines/default/archive/{part}")
        assert (refused.status, refused.error["code"]) == (409, "not_observable")
    for name in ("orders", "archive"):
        topology = fleet.operator.get(f"/pipelines/default/{name}/topology").json
        assert {node["name"] for node in topology["nodes"]} == {"orders", "large_orders", "rated", "out", "bad_orders"}


# ── one pipeline ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_topology_shows_nodes_with_their_details(visit: Visit, fleet: Fleet) -> None:
    page = visit.open()
    row(page, "orders").get_by_role("link").click()
    for name in ("orders", "large_orders", "rated", "out", "bad_orders"):
        expect(node(page, name)).to_be_visible()
    expect(page.locator(".edge")).to_have_count(4)
    node(page, "large_orders").focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary")
    expect(panel.get_by_role("heading", name="large_orders")).to_be_focused()
    expect(panel.get_by_role("row", name=re.compile("customer string"))).to_be_visible()
    panel.get_by_role("tab", name="Overview").focus()
    page.keyboard.press("ArrowRight")
    expect(panel.get_by_role("tab", name="Live rows")).to_be_focused()
    panel.get_by_role("tab", name="Definition").click()
    expect(panel.get_by_role("textbox", name="Definition of large_orders")).to_contain_text("SELECT id, customer")
    assert visit.violations() == []
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(node(page, "large_orders")).to_be_focused()


def test_live_rows_arrive_with_their_kind_and_markup_stays_text(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/pipelines/default/orders")
    node(page, "rated").click()
    panel = page.get_by_role("complementary")
    panel.get_by_role("tab", name="Live rows").click()
    expect(panel.get_by_role("row", name=re.compile("insert.*Mei Tanaka"))).to_be_visible()
    expect(panel.get_by_text(SCRIPT, exact=True)).to_be_visible()
    fleet.add_orders("Jonas Weber")
    expect(panel.get_by_role("row").nth(1)).to_contain_text("Jonas Weber")
    panel.get_by_label("Filter expression").fill("customer = 'Jonas Weber'")
    panel.get_by_role("button", name="Apply").click()
    expect(panel.get_by_role("row")).to_have_count(2)
    panel.get_by_label("insert").uncheck()
    expect(panel.get_by_text("Waiting for rows")).to_be_visible()
    panel.get_by_role("tab", name="Dead letters").click()
    expect(panel.get_by_text(f"unknown customer {SCRIPT}!").first).to_be_visible()
    assert page.locator("img[src=x]").count() == 0


def test_epochs_show_positions_and_acknowledgements(visit: Visit) -> None:
    page = visit.open("#/pipelines/default/orders")
    page.get_by_role("button", name="Checkpoint").click()
    expect(page.get_by_role("status")).to_contain_text("has stored its position")
    page.get_by_role("tab", name="Epochs").click()
    newest = page.get_by_role("region", name=re.compile("^Epoch \\d"))
    expect(newest.get_by_role("row", name=re.compile("out acknowledged"))).to_be_visible()
    expect(newest.get_by_role("row", name=re.compile("orders:watermark"))).to_be_visible()
    oldest = page.get_by_role("region", name="Epochs", exact=True).get_by_role("button").last
    number = oldest.inner_text()
    oldest.click()
    expect(page.get_by_role("heading", name=f"Epoch {number}", exact=True)).to_be_visible()
    assert visit.violations() == []


def test_logs_and_the_pipeline_file_are_shown(visit: Visit) -> None:
    page = visit.open("#/pipelines/default/orders")
    page.get_by_role("tab", name="Logs").click()
    expect(page.get_by_role("log")).to_contain_text("running")
    page.get_by_label("Contains").fill("nothing like this")
    expect(page.get_by_text("No log records")).to_be_visible()
    page.get_by_role("tab", name="Pipeline file").click()
    expect(page.get_by_role("textbox", name="Pipeline file")).to_contain_text("large_orders:")


def test_a_failing_pipeline_shows_the_error_and_what_to_do(visit: Visit) -> None:
    page = visit.open("#/pipelines/default/unreachable")
    expect(page.get_by_role("alert")).to_contain_text("Connection refused")
    expect(page.get_by_role("alert")).to_contain_text("What to do:")
    expect(page.get_by_role("log")).to_contain_text("Connection refused")
    assert visit.violations() == []


def test_a_paused_pipeline_is_drawn_and_says_how_old_its_figures_are(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/pipelines/default/archive")
    expect(node(page, "rated")).to_contain_text("paused")
    expect(page.get_by_role("region", name="Topology")).to_contain_text("Resume it to let rows flow.")
    edge = page.locator(".edge.rejected")
    expect(edge.get_by_text("rejected")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    expect(node(page, "rated")).to_contain_text("starved")
    expect(page.get_by_text("Figures as of")).to_have_count(0)
    page.get_by_role("button", name="Pause").click()
    expect(node(page, "rated")).to_contain_text("paused")
    expect(page.get_by_text(re.compile(r"Figures as of \d\d:\d\d:\d\d, \d+"))).to_be_visible()
    expect(node(page, "orders")).to_contain_text(re.compile(r"\d rows?$"))
    node(page, "rated").click()
    details = page.get_by_role("complementary")
    expect(details.get_by_role("tab", name="Live rows")).to_have_count(0)
    details.get_by_role("tab", name="Definition").click()
    expect(details).to_contain_text("unknown customer")
    assert visit.violations() == []


def test_a_failed_node_is_marked_and_its_place_leads_to_the_editor(visit: Visit, fleet: Fleet) -> None:
    definition = orders(fleet.data).replace("quantity * 10", "quantity / (id - id)")
    assert fleet.operator.create("divides", definition).status == 201
    page = visit.open("#/pipelines/default/divides")
    failed = node(page, "large_orders")
    expect(failed).to_contain_text("failed")
    expect(failed).to_have_class(re.compile("failed"))
    expect(node(page, "orders")).to_contain_text("stopped")
    error = page.get_by_role("alert")
    expect(error).to_contain_text("Node large_orders has failed")
    assert visit.violations() == []
    error.get_by_role("button", name="large_orders").click()
    expect(page.get_by_role("heading", name="large_orders")).to_be_visible()
    error.get_by_role("link", name=re.compile(r"divides\.yaml:8:\d+")).click()
    expect(page.get_by_role("textbox", name="Pipeline file")).to_be_focused()
    line = "document.querySelector('.editor-host').shadowRoot.querySelector('.cm-activeLine').textContent"
    assert "quantity / (id - id)" in page.evaluate(line)
    fleet.operator.request("DELETE", "/pipelines/default/divides?state=delete")


def test_the_charts_are_filled_after_a_reload(visit: Visit, fleet: Fleet) -> None:
    page = visit.open("#/pipelines/default/orders")
    charts = page.get_by_role("region", name="Charts")
    expect(charts.locator("canvas").first).to_be_visible()
    path = "/pipelines/default/orders/history"
    fleet.server.eventually(lambda: any(fleet.operator.get(path).json["rate_in"]))
    page.reload()
    page.get_by_label("1 h").check(force=True)
    expect(charts.locator("canvas").first).to_be_visible()
    expect(charts).not_to_contain_text("No rows have been counted")


def test_a_crash_loop_is_visible_while_it_waits_and_while_it_runs(visit: Visit, fleet: Fleet) -> None:
    page = visit.open()
    waiting = row(page, "unreachable")
    expect(waiting).to_contain_text(re.compile(r"next attempt in .*Connection refused"))
    expect(waiting).to_contain_text(re.compile(r"restarting.*\d restart"))
    page = visit.open("#/pipelines/default/unreachable")
    expect(page.locator(".title-state")).to_contain_text(re.compile(r"\d restarts? since .*next attempt at .*, in "))
    expect(page.get_by_role("alert")).to_contain_text(re.compile(r"Node orders has failed, .* ago"))

    text = orders(fleet.data).replace("primary_key: id}", "primary_key: id, mode: {type: continuous}}", 1)
    assert fleet.operator.create("killed", text, isolation="process", size="xs").status == 201
    fleet.server.eventually(lambda: fleet.operator.state("killed") == "running")
    (worker,) = children(fleet.server.pid, "streamling.serve.worker")
    os.kill(worker, signal.SIGKILL)
    page = visit.open()
    expect(row(page, "killed")).to_contain_text("running, unstable")
    expect(row(page, "killed")).to_contain_text(
        re.compile("1 restart.*failed .* ago: the process of the pipeline ended")
    )
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(row(page, "killed")).to_be_visible()
    page = visit.open("#/pipelines/default/killed")
    expect(page.get_by_role("alert")).to_contain_text("exit code -9")
    expect(page.locator(".title-state")).to_contain_text(re.compile("running, unstable.*1 restart since"))
    assert visit.violations() == []
    page.get_by_role("button", name="Restart").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart pipeline").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    fleet.operator.request("DELETE", "/pipelines/default/killed?state=delete")


def test_a_page_that_does_not_exist_leads_back(visit: Visit) -> None:
    page = visit.open(f"#/pipelines/default/{SCRIPT}")
    expect(page.get_by_role("alert")).to_contain_text(SCRIPT)
    page.goto(f"{visit.address}/console/#/nothing")
    page.get_by_role("link", name="Show all pipelines").click()
    expect(row(page, "orders")).to_be_visible()


# ── secrets and audit ───────────────────────────────────────────────────────────────────────────────────────────


def test_an_admin_stores_and_deletes_secrets_and_finds_that_in_the_audit(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address, token=ADMIN) as visit:
        page = visit.open()
        page.get_by_role("link", name="Secrets").click()
        page.get_by_label("Name").fill("webhook_token")
        page.get_by_label("Value").fill("a-value-that-nobody-sees")
        page.get_by_role("button", name="Store secret").click()
        expect(page.get_by_role("rowheader", name="webhook_token")).to_be_visible()
        expect(page.get_by_label("Value")).to_have_value("")
        assert "a-value-that-nobody-sees" not in page.content()
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
        page.get_by_role("button", name="Delete webhook_token").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete secret").click()
        expect(page.get_by_text("No secrets are stored")).to_be_visible()

        page.get_by_role("link", name="Audit").click()
        newest = page.get_by_role("row").nth(1)
        page.get_by_label("Search entries").fill("webhook")  # the server may add entries of its own
        expect(newest).to_contain_text("delete secret")
        expect(page.get_by_role("row")).to_have_count(3)  # with the header
        page.get_by_label("Action").select_option("set secret")
        expect(page.get_by_role("row")).to_have_count(2)
        expect(newest).to_contain_text("webhook_token")
        assert (visit.violations(), visit.is_too_wide()) == ([], False)


def test_roles_see_the_pages_that_they_may_use(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address, token=VIEWER) as visit:
        page = visit.open()
        expect(row(page, "orders")).to_be_visible()
        navigation = page.get_by_role("navigation", name="Main")
        expect(navigation.get_by_role("link")).to_have_text(["Pipelines"])
        expect(page.get_by_role("button", name="Restart orders")).to_have_count(0)
        visit.open("#/pipelines/default/orders")
        expect(node(page, "rated")).to_be_visible()
        expect(page.get_by_role("link", name="Edit")).to_have_count(0)
        visit.open("#/secrets")
        expect(page.get_by_role("alert")).to_contain_text("this needs admin")


# ── looks ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_screen_is_accessible_in_the_dark_and_on_a_phone(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address, token=OPERATOR, width=375, height=740, scheme="dark") as visit:
        page = visit.open()
        expect(row(page, "orders")).to_be_visible()
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
        visit.open("#/new")
        expect(page.get_by_role("button", name=re.compile("Kafka with dead letters"))).to_be_visible()
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
        visit.open("#/pipelines/default/orders")
        node(page, "rated").click()
        page.get_by_role("complementary").get_by_role("tab", name="Live rows").click()
        expect(page.get_by_role("complementary").get_by_role("row").nth(1)).to_be_visible()
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
        for name in ("unreachable", "archive"):
            visit.open(f"#/pipelines/default/{name}")
            expect(page.get_by_role("heading", name=name)).to_be_visible()
            expect(node(page, "orders")).to_be_visible()
            expect(page.get_by_role("region", name="Charts")).to_be_visible()
            assert (visit.violations(), visit.is_too_wide()) == ([], False), name
        visit.open("#/pipelines/default/archive/edit")
        expect(page.get_by_role("textbox").first).to_be_visible()
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
    with visiting(browser, fleet.address, token=ADMIN, width=375, height=740, scheme="dark") as visit:
        for screen, title in (("secrets", "Secrets"), ("audit", "Audit")):
            page = visit.open(f"#/{screen}")
            expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            page.wait_for_load_state("networkidle")
            assert (visit.violations(), visit.is_too_wide()) == ([], False), screen


@pytest.mark.parametrize("width", [375, 1280])
def test_old_figures_say_since_when(browser: Browser, fleet: Fleet, width: int) -> None:
    """While the server cannot read its database, it answers what it knows."""

    def grow_old(route: Route) -> None:
        answer = route.fetch()
        found = answer.json()
        for each in found.get("items", [found]):
            each.update(stale=True, stale_since="2026-05-06T07:08:09Z")
        route.fulfill(response=answer, json=found)

    with visiting(browser, fleet.address, token=OPERATOR, width=width, height=740) as visit:
        visit.page.route(re.compile(r"/api/v1/pipelines(\?.*)?$|/pipelines/default/orders$"), grow_old)
        page = visit.open()
        expect(page.get_by_text("Old since")).to_contain_text("the server cannot read its database")
        assert (visit.violations(), visit.is_too_wide()) == ([], False)
        visit.open("#/pipelines/default/orders")
        expect(page.get_by_text("old since")).to_contain_text("the server cannot read its database")
        assert (visit.violations(), visit.is_too_wide()) == ([], False)


def test_the_theme_can_be_changed_and_is_kept(visit: Visit) -> None:
    page = visit.open()
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Theme: as the system").click()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    assert page.evaluate(background) == dark
    page.get_by_role("button", name="Theme: dark").click()
    page.get_by_role("button", name="Theme: light").click()
    assert page.evaluate(background) == light


# ── many pipelines ──────────────────────────────────────────────────────────────────────────────────────────────


def test_five_hundred_pipelines_need_few_rows_and_small_responses(browser: Browser, fleet: Fleet) -> None:
    with visiting(browser, fleet.address, token=CROWD) as visit:
        page = visit.open()
        expect(page.get_by_text(f"{PIPELINES} in total")).to_be_visible()
        page.evaluate("window.isSamePage = true")
        assert page.get_by_role("row").count() < 50
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(row(page, f"p{PIPELINES - 1}")).to_be_visible()
        assert page.get_by_role("row").count() < 50
        page.get_by_label("Search pipelines").fill("p123")
        expect(row(page, "p123")).to_contain_text("paused")
        fleet.crowd.post("/pipelines/crowd/p123/resume")
        expect(row(page, "p123")).to_contain_text("running")
        assert page.evaluate("window.isSamePage")
        assert visit.largest_response()[0] <= LARGEST, visit.largest_response()
        assert any("/api/v1/pipelines?" in request.url for request in visit.finished)


# ── a single run ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_single_run_shows_its_pipeline_directly(browser: Browser, tmp_path: Path) -> None:
    # more digits than JavaScript keeps
    rows = "id\n9007199254740993\n"
    with (
        running(tmp_path, "daily-orders", rows) as address,
        visiting(browser, address, token=single_run.TOKEN) as visit,
    ):
        page = visit.open()
        expect(page.get_by_role("heading", name="daily-orders")).to_be_visible()
        expect(page.get_by_role("link", name="New pipeline")).to_have_count(0)
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".title-state")).to_contain_text("paused")
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".title-state")).to_contain_text("running")
        node(page, "orders").click()
        page.get_by_role("tab", name="Live rows").click()
        expect(page.get_by_role("cell", name="9007199254740993")).to_be_visible()
        page.get_by_role("tab", name="Epochs").click()
        expect(page.get_by_role("row", name=re.compile("out acknowledged"))).to_be_visible()
        page.get_by_role("button", name="Preview").click()
        preview = page.get_by_role("region", name="Preview")
        rows_of_orders = preview.get_by_role("region", name="Rows of orders")
        expect(rows_of_orders.get_by_role("cell", name="9007199254740993")).to_be_visible(timeout=120_000)
        preview.get_by_role("button", name="Stop").click()
        expect(preview.get_by_role("status")).to_contain_text("stopped")
        assert visit.violations() == []

        (tmp_path / "daily-orders.yaml").write_text("sources: {orders: {type: fil, path: data}}\nsinks: {}\n")
        page.get_by_role("button", name="Preview").click()
        expect(preview.get_by_role("alert")).to_contain_text("there is no source type 'fil'", timeout=120_000)
