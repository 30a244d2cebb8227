"""What the pipelines of the matrix read, how the command runs them, and what they have written."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from string import Template
from typing import Any

import psycopg
import pyarrow as pa
from fastavro import writer
from psycopg import sql
from pyarrow import parquet

from streamling.dev.services.avro import decode
from streamling.dev.services.topics import Message, consume
from tests.connectors.hybrid.driver import Database
from tests.connectors.kafka.source_driver import Topic, framed, record
from tests.harness.commands import Command
from tests.harness.endpoint import Endpoint, Reply, Request
from tests.recovery.accounts import SCHEMA as ACCOUNT

HERE = Path(__file__).parent
PLUGINS = HERE.parent / "harness" / "spreading.py"

_ITEMS = ["tea", "ïnk", "rice", "jam", "ıslak"]
_WIDE = 2**255 - 12345
_DECIMAL = {"logicalType": "decimal", "precision": 78, "scale": 0}
_SUPPLY = {
    "type": "record",
    "name": "supply",
    "fields": [{"name": "id", "type": "long"}, {"name": "supply", "type": {"type": "bytes", **_DECIMAL}}],
}


def write_files(data: Path) -> None:
    """Several files of each format, so that there is something to divide."""
    for format in ("orders", "events", "balances", "supplies"):
        (data / format).mkdir(parents=True)
    for part in range(4):
        ids = range(part * 50, part * 50 + 50)
        orders = [f"{id},{_ITEMS[id % 5]},{id % 7}.5,{id}" for id in ids]
        (data / "orders" / f"{part}.csv").write_text("\n".join(["id,item,price,quantity", *orders]) + "\n")
        events = [json.dumps({"id": id, "kind": f"k{id % 3}", "tags": ["a", str(id)]}) for id in ids]
        (data / "events" / f"{part}.json").write_text("\n".join(events) + "\n")
        amounts = pa.array([Decimal(10**50 + id) / 100 for id in ids], pa.decimal256(60, 2))
        balances = pa.table({"id": pa.array(ids, pa.int64()), "amount": amounts})
        parquet.write_table(balances, data / "balances" / f"{part}.parquet")
        with (data / "supplies" / f"{part}.avro").open("wb") as file:
            writer(file, _SUPPLY, [{"id": id, "supply": _unscaled(_WIDE // 4 + id)} for id in ids])


def _unscaled(number: int) -> Any:
    return number.to_bytes(33, "big", signed=True)


def fill_topics(accounts: Topic, clicks: Topic) -> None:
    chance = random.Random(11)
    id = accounts.register(ACCOUNT)
    rows = [{"id": n % 80, "owner": f"ö{chance.randrange(100)}", "cents": n} for n in range(400)]
    ops = ["d" if chance.random() < 0.1 else "u" for _ in rows]
    accounts.send(
        *(
            Message(framed(id, ACCOUNT, row), headers=(("dbz.op", op.encode()),), partition=row["id"] % 2)
            for row, op in zip(rows, ops, strict=True)
        )
    )
    good = [{"id": n, "page": f"/{n % 9}", "balance": str(2**256 - 1 - n)} for n in range(200)]
    texts = [json.dumps(row) for row in good]
    texts[::40] = ["no JSON", '{"id": "x"}', '{"id": 1, "page": 2, "balance": "-1"}', "[]", "7"]
    clicks.send(*(Message(text.encode(), partition=n % 2) for n, text in enumerate(texts)))


LEDGER = record("id", ("owner", "string"), ("amount", {"type": "bytes", **_DECIMAL}))


def fill_ledger(database: Database, topic: Topic) -> None:
    """200 and 150 entries in two tables, the last 50 of which a filter leaves out, and 40 in the topic that continues
    them."""
    for table, first, count in (("ledger_old", 0, 200), ("ledger_new", 200, 150)):
        database.execute(
            f"CREATE TABLE {table} (id UInt64, owner String, amount UInt128) ENGINE = MergeTree ORDER BY id",
            f"INSERT INTO {table} SELECT number + {first}, concat('ö', toString(number % 7)), pow(2, 127) + number "
            f"FROM numbers({count})",
        )
    rows = [{"id": 300 + n, "owner": f"ü{n % 3}", "amount": Decimal(2**255 + n)} for n in range(40)]
    topic.write(LEDGER, *rows[:20], partition=0)
    topic.write(LEDGER, *rows[20:], partition=1)


def answer(request: Request) -> Reply:
    if request.path.endswith("/hook"):
        return Reply()
    return Reply.of([{**row, "score": row["id"] * 2} for row in request.rows])


@dataclass
class Run:
    """One pipeline at one master: a folder, a Postgres schema and topics of its own."""

    place: str
    folder: Path
    master: str
    data: Path
    endpoint: Endpoint
    services: dict[str, str]
    #: id of the process that the command runs in
    driver: int | None = None

    def run(self, is_complete: Callable[[], bool], seconds: float = 600) -> None:
        """Until everything has been read, then to a clean end."""
        (self.folder / "out").mkdir(parents=True)
        (self.folder / "pipeline.yaml").write_text(self._pipeline())
        command = Command(self.folder, self._env(), "--metrics-file", "metrics.prom")
        self.driver = command.start().pid
        try:
            command.eventually(is_complete, seconds)
            command.drain(90)
        finally:
            command.end()

    def _pipeline(self) -> str:
        values = {
            "place": self.place,
            "data": str(self.data),
            "folder": str(self.folder / "out"),
            "seen": str(self.folder / "seen"),
            "endpoint": f"http://127.0.0.1:{self.endpoint.port}/{self.place}",
        }
        return Template((HERE / "matrix.yaml").read_text()).substitute(values)

    def _env(self) -> dict[str, str]:
        """``spark.master`` is all that depends on the cluster."""
        return {
            **self.services,
            "STREAMLING__PLUGIN__PATH": str(PLUGINS),
            "STREAMLING__SPARK__MASTER": self.master,
            "STREAMLING__CHECKPOINT_INTERVAL_SEC": "2",
            # a consumer group of its own: all of them read the same topics
            "STREAMLING__APPLICATION_ID": self.place,
        }

    # ── results ─────────────────────────────────────────────────────────────────────────────────────────────

    def table(self, dsn: str, name: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """All rows in the order of their text; none when there is no such table."""
        query = sql.SQL("SELECT {} FROM {}").format(sql.SQL(columns), sql.Identifier(self.place, name))  # type: ignore[arg-type]
        with psycopg.connect(dsn) as connection:
            try:
                return sorted(connection.execute(query).fetchall(), key=repr)
            except psycopg.errors.UndefinedTable:
                return []

    def has_rows(self, dsn: str, tables: Mapping[str, int]) -> bool:
        """Whether these tables have at least so many rows. One connection for all of them: this is asked again and
        again."""
        with psycopg.connect(dsn) as connection:
            for name, count in tables.items():
                query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(self.place, name))
                try:
                    found = connection.execute(query).fetchone()
                except psycopg.errors.UndefinedTable:
                    return False
                if found is None or found[0] < count:
                    return False
        return True

    def hooked(self) -> list[dict[str, Any]]:
        """Rows that the webhook got, each once: delivery is at least once."""
        requests = [one for one in list(self.endpoint.accepted) if one.path.endswith(f"/{self.place}/hook")]
        return _distinct([row for request in requests for row in request.rows])

    def written(self) -> list[dict[str, Any]]:
        """Rows in the folder of the plugin's sink, without the process that made them."""
        lines = [line for file in (self.folder / "out").iterdir() for line in file.read_text().splitlines()]
        rows = [json.loads(line) for line in lines]
        return _distinct([{key: value for key, value in row.items() if key != "pid"} for row in rows])

    def workers(self) -> set[int]:
        """Processes that the plugin's transform ran in."""
        lines = [line for file in (self.folder / "out").iterdir() for line in file.read_text().splitlines()]
        return {json.loads(line)["pid"] for line in lines}

    def seen(self) -> list[int]:
        """Rows that have passed the side output."""
        file = self.folder / "seen"
        return list(json.loads(file.read_text())) if file.exists() else []

    def json_topic(self, brokers: str, name: str) -> list[Any]:
        return _distinct([json.loads(message.value or b"null") for message in consume(brokers, name)])

    def avro_topic(self, topic: Topic, name: str) -> list[Any]:
        """The last value of each key, with its operation."""
        last = {}
        for message in consume(topic.kafka.brokers, name):
            row = decode(topic.registry, message.value or b"")
            last[row["id"]] = (row, message.header("dbz.op"))
        return sorted(last.items())

    def printed(self) -> list[str]:
        return sorted((self.folder / "printed").read_text().splitlines())

    def counted(self, *names: str) -> dict[str, float]:
        """Series of these metrics by node, out of the file that the run wrote."""
        found: dict[str, float] = {}
        for line in (self.folder / "metrics.prom").read_text().splitlines():
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            if name in names:
                node = re.findall(r'\bid="([^"]*)"', labels)[0]
                found[f"{name} {node}"] = found.get(f"{name} {node}", 0) + float(value)
        return found


def _distinct(rows: list[Any]) -> list[Any]:
    return [json.loads(text) for text in sorted({json.dumps(row, sort_keys=True) for row in rows})]
