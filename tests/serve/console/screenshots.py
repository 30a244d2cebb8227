"""Takes the screenshots of docs/console.md: `make console-screenshots`.

They show a real server with real pipelines; a slow HTTP endpoint blocks one of them.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import threading
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from streamling.dev.services.kafka import LocalKafka
from streamling.dev.services.packages import Packages
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.pipeline.config.core import default_cache_dir
from streamling.spark.jvm.java import find_java
from tests.harness.endpoint import Reply, endpoint
from tests.paths import ROOT
from tests.serve.console.chromium import browser
from tests.serve.console.visit import Visit, visiting
from tests.serve.server import Client, ServeProcess

_IMAGES = ROOT / "docs" / "assets"
_CUSTOMERS = ("Mei Tanaka", "Jonas Weber", "Ana Silva", "Omar Haddad", "Ines Rocha")
_PIPELINE = """
# Orders with a score of each customer; the large ones are posted to an endpoint.
sources:
  orders:
    type: kafka
    topic: orders
    data_format: json
    schema: {{id: int64, customer: string, quantity: int32, price: float64}}
    primary_key: id

transforms:
  large_orders:
    type: sql
    primary_key: id
    sql: |
      SELECT id, customer, round(quantity * price, 2) AS total
      FROM orders
      WHERE quantity * price >= 50
  rated:
    type: script
    from: large_orders
    language: typescript
    primary_key: id
    errors: {{to: rejected}}
    schema: {{id: int64, customer: string, total: float64, tier: string}}
    script: |
      function process(order: {{id: number; customer: string; total: number}}) {{
        if (order.id % 997 === 0) throw new Error("no tier for order " + order.id);
        return {{...order, tier: order.total > 500 ? "premium" : "standard"}};
      }}

sinks:
  archive: {{type: blackhole, from: large_orders}}
  partner_api: {{type: webhook, from: rated, url: "{url}", one_row_per_request: true, payload_version: 1}}
  rejected: {{type: memory}}
"""
_QUIET = """
sources:
  orders: {type: kafka, topic: orders, data_format: json, schema: {id: int64}, primary_key: id}
sinks:
  archive: {type: blackhole, from: orders}
"""
_UNREACHABLE = """
sources:
  clicks: {type: kafka, topic: clicks, primary_key: id}
sinks:
  archive: {type: blackhole, from: clicks}
"""


def _produce_orders(brokers: str, stopping: threading.Event) -> None:
    """New orders, several times a second."""
    number, chance = 0, random.Random(7)
    while not stopping.wait(0.2):
        orders = []
        for _ in range(chance.randint(60, 160)):
            number += 1
            price = chance.randint(500, 9000) / 100
            order = {"id": number, "customer": chance.choice(_CUSTOMERS), "quantity": number % 20 + 1, "price": price}
            orders.append(Message(json.dumps(order).encode(), partition=number % 3))
        produce(brokers, "orders", orders)


def _create_pipelines(client: Client, url: str) -> None:
    created = [
        client.create("orders-to-partner", _PIPELINE.format(url=url)),
        *(client.create(name, _QUIET) for name in ("invoices", "shipments", "returns", "stock-levels")),
        client.create("clicks", _UNREACHABLE, namespace="web"),
        client.create("sessions", _QUIET, namespace="web", desired="paused"),
    ]
    assert {answer.status for answer in created} == {201}, [answer.text for answer in created]


def _fleet(visit: Visit) -> None:
    page = visit.open()
    expect(page.get_by_role("row").filter(has_text="orders-to-partner")).to_contain_text("running")
    page.wait_for_timeout(60_000)  # until the trend lines have a shape


def _pipeline(visit: Visit) -> Page:
    page = visit.open("#/pipelines/default/orders-to-partner")
    expect(page.locator(".node")).to_have_count(6)
    page.get_by_text("5 min", exact=True).click()
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(30_000)  # until the charts have a shape
    return page


def _failed(visit: Visit) -> Page:
    page = visit.open("#/pipelines/web/clicks")
    expect(page.locator('[data-node="clicks"]')).to_contain_text("failed")
    return page


def _node(visit: Visit) -> None:
    page = visit.page
    page.locator('[data-node="rated"]').click()
    page.get_by_role("complementary").get_by_role("tab", name="Live rows").click()
    expect(page.get_by_role("complementary").get_by_role("row").nth(8)).to_be_visible()


def _epochs(visit: Visit) -> None:
    page = visit.page
    page.keyboard.press("Escape")
    page.get_by_role("tab", name="Epochs").click()
    expect(page.get_by_role("region", name="Epochs", exact=True).get_by_role("row").nth(3)).to_be_visible()
    complete = page.get_by_role("row").filter(has_text="complete").first
    complete.get_by_role("link").or_(complete.get_by_role("button")).click()
    expect(page.get_by_role("cell", name="marker sent").first).to_be_visible()
    page.locator(".below").scroll_into_view_if_needed()


def _editor(visit: Visit) -> None:
    page = visit.open("#/new")
    page.get_by_role("button", name="Kafka → SQL → Postgres").click()
    expect(page.get_by_text("No problems found.")).to_be_visible()
    page.get_by_role("textbox", name="Pipeline file").click()
    page.keyboard.press("Control+End")
    page.keyboard.type("    on")
    expect(page.get_by_role("option", name="on_conflict")).to_be_visible()
    expect(page.get_by_text("1 problem")).to_be_visible()


def _preview(visit: Visit) -> None:
    page = visit.open("#/pipelines/default/orders-to-partner/edit")
    page.get_by_role("button", name="Leave without saving").click()
    expect(page.get_by_text("No problems found.")).to_be_visible()
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview.get_by_role("region", name="Rows of rated")).to_be_visible(timeout=120_000)
    page.wait_for_timeout(2_000)
    preview.scroll_into_view_if_needed()
    preview.evaluate("(card) => card.scrollIntoView({ block: 'start' })")
    page.evaluate("scrollBy(0, -120)")


def _save(page: Page, name: str) -> None:
    page.screenshot(path=_IMAGES / f"console-{name}.png")


def _take_all(started: Browser, address: str) -> None:
    with visiting(started, address, width=1280, height=860) as visit:
        _fleet(visit)
        _save(visit.page, "fleet")
        _pipeline(visit)
        _save(visit.page, "pipeline")
        _node(visit)
        _save(visit.page, "node")
        _epochs(visit)
        _save(visit.page, "epochs")
        _save(_failed(visit), "failed")
        _editor(visit)
        _save(visit.page, "editor")
        _preview(visit)
        _save(visit.page, "preview")
    with visiting(started, address, width=1280, height=860, scheme="dark") as visit:
        _pipeline(visit)
        _save(visit.page, "dark")
    with visiting(started, address, width=375, height=740, scheme="dark") as visit:
        _pipeline(visit)
        _save(visit.page, "phone")


def main() -> None:
    """Write all images."""
    packages = Packages(default_cache_dir(os.environ), find_java(os.environ), short_lived=True)
    slow = endpoint(lambda request: Reply(seconds=0.3))
    with (
        tempfile.TemporaryDirectory() as folder,
        slow as partner,
        LocalKafka(Path(folder) / "kafka", packages=packages) as kafka,
        browser() as started,
    ):
        create_topic(kafka.brokers, "orders", partitions=3)
        stopping = threading.Event()
        writer = threading.Thread(target=_produce_orders, args=(kafka.brokers, stopping))
        server = ServeProcess(Path(folder), {"STREAMLING__KAFKA_SOURCE__BROKERS": kafka.brokers})
        writer.start()
        try:
            client = server.start()
            _create_pipelines(client, partner.url)
            server.eventually(lambda: client.state("orders-to-partner") == "running")
            _take_all(started, server.address)
        finally:
            stopping.set()
            writer.join()
            server.kill()


if __name__ == "__main__":
    main()
