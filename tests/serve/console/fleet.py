"""A server with pipelines that read, reject, wait and fail, for the tests of the console."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from streamling.pipeline.config import load_config
from streamling.serve.catalogue import Actor, Catalogue, open_database
from streamling.serve.model import PipelineBody, PipelineKey
from tests.serve.server import Client, ServeProcess

OPERATOR, CROWD = "operator-0123456789", "crowd-0123456789abc"
ADMIN, VIEWER = "admin-0123456789abc", "viewer-0123456789ab"
#: text that would run a script if a page took it for markup
SCRIPT = "<img src=x onerror=alert(1)>"

_TOKENS = {
    "STREAMLING__SERVE__TOKENS__OPS__VALUE": OPERATOR,
    "STREAMLING__SERVE__TOKENS__OPS__ROLE": "operator",
    "STREAMLING__SERVE__TOKENS__OPS__NAMESPACES": "default",
    "STREAMLING__SERVE__TOKENS__CROWD__VALUE": CROWD,
    "STREAMLING__SERVE__TOKENS__CROWD__ROLE": "operator",
    "STREAMLING__SERVE__TOKENS__CROWD__NAMESPACES": "crowd",
    "STREAMLING__SERVE__TOKENS__BOSS__VALUE": ADMIN,
    "STREAMLING__SERVE__TOKENS__BOSS__ROLE": "admin",
    "STREAMLING__SERVE__TOKENS__GUEST__VALUE": VIEWER,
    "STREAMLING__SERVE__TOKENS__GUEST__ROLE": "viewer",
    "STREAMLING__SERVE__TOKENS__GUEST__NAMESPACES": "default",
    "STREAMLING__SERVE__REQUESTS_PER_MINUTE": "60000",
}


def orders(folder: Path) -> str:
    """Reads files, filters with SQL, and rejects customers that a script does not accept."""
    return f"""
sources:
  orders: {{type: file, format: csv, path: "{folder}", primary_key: id}}
transforms:
  large_orders:
    type: sql
    primary_key: id
    sql: SELECT id, customer, quantity * 10 AS total FROM orders
  rated:
    type: script
    from: large_orders
    language: javascript
    primary_key: id
    errors: {{to: bad_orders}}
    schema: {{id: int64, customer: string, total: int64}}
    script: |
      function process(row) {{
        if (row.customer === "{SCRIPT}!") throw new Error("unknown customer " + row.customer);
        return row;
      }}
sinks:
  out: {{type: print, from: rated}}
  bad_orders: {{type: memory}}
"""


UNREACHABLE = f"""
sources:
  orders: {{type: kafka, topic: "{SCRIPT}", data_format: json, schema: {{id: int64}}, primary_key: id}}
sinks:
  out: {{type: print, from: orders}}
"""


@dataclass
class Fleet:
    """A running server and what its pipelines read."""

    server: ServeProcess
    operator: Client
    crowd: Client
    data: Path
    written: int = 0

    @property
    def address(self) -> str:
        return self.server.address

    def add_orders(self, *customers: str) -> None:
        """A file with one order per customer."""
        self.written += 1
        lines = [f"{self.written * 1000 + number},{customer},{number}" for number, customer in enumerate(customers)]
        scratch = self.data / ".tmp"
        scratch.write_text("\n".join(["id,customer,quantity", *lines, ""]))
        scratch.rename(self.data / f"{self.written}.csv")


def start(folder: Path, crowd: int) -> Fleet:
    """The server with its pipelines; they have been accepted, not all of them run. ``crowd`` more are paused, in a
    namespace of their own."""
    data = folder / "data"
    data.mkdir()
    _add_crowd(folder, crowd)
    server = ServeProcess(folder, {**_TOKENS, "STREAMLING__KAFKA_SOURCE__BROKERS": "127.0.0.1:1"})
    server.start()
    fleet = Fleet(server, Client(server.address, OPERATOR), Client(server.address, CROWD), data)
    fleet.add_orders("Mei Tanaka", SCRIPT, f"{SCRIPT}!")
    wanted = {
        "orders": (orders(data), "running"),
        "unreachable": (UNREACHABLE, "running"),
        "archive": (orders(data), "paused"),
    }
    for name, (definition, desired) in wanted.items():
        created = fleet.operator.create(name, definition, desired=desired)
        assert created.status == 201, created.text
    return fleet


def _add_crowd(folder: Path, number: int) -> None:
    """Written into the catalogue before the server starts: the API would check each of them."""
    database = open_database(load_config("config", cwd=folder, env={}))
    catalogue = Catalogue(database)
    source = f'{{type: file, format: csv, path: "{folder / "data"}", primary_key: id}}'
    definition = f"{{sources: {{orders: {source}}}, sinks: {{out: {{type: blackhole, from: orders}}}}}}"
    for each in range(number):
        key = PipelineKey("crowd", f"p{each:03}")
        catalogue.create(key, PipelineBody(definition=definition, desired="paused"), Actor("test"))
    database.close()
