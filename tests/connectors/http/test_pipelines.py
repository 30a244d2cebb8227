"""Handlers and webhooks among other nodes: batches, instances, markers, several sinks, SQL before and after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from streamling.connectors.http.handler import HandlerTransform
from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.contract import sample_rows
from streamling.dev.contracts.harness import NoSpark
from streamling.engine.run.run import PipelineRun
from streamling.pipeline.config import AppConfig
from streamling.plugins.registry import Registry
from streamling.testing import PipelineHarness
from tests.harness.endpoint import Reply, Request, echo, endpoint
from tests.harness.pipelines import eventually, finish, new_run, start_run
from tests.paths import ROOT

EXAMPLE = ROOT / "examples" / "http"


def nodes(*batches: pa.RecordBatch, ends: bool = True) -> PipelineHarness:
    """The contract's source and ledger, for custom pipelines."""
    made = PipelineHarness(HandlerTransform, {})
    made.ends = ends
    made.given = batches
    return made


def start(
    made: PipelineHarness, session: Any = None, *, config: AppConfig | None = None, **sections: Any
) -> PipelineRun:
    registry = made.registry(made.given)
    text = json.dumps({"sources": {"given": {"type": "contract.given", "primary_key": "id"}}, **sections})
    run = new_run(text, registry, config=config or AppConfig(checkpoint_interval_sec=0.05), state=made.state)
    run.analyse(session or NoSpark())
    made.run = run
    run.start()
    return run


def handler(url: str, upstream: str = "given", **fields: Any) -> dict[str, Any]:
    return {"type": "handler", "from": upstream, "primary_key": "id", "url": url, **fields}


@pytest.mark.parametrize("widths", [(1, 3, 1), (3, 1, 3), (1, 2, 4), (4, 2, 1), (3, 3, 3), (1, 4, 2)])
def test_each_row_passes_exactly_once_with_any_number_of_instances(widths):
    """Widen, narrow, widen then narrow, equal widths."""
    first, second, last = widths
    made = nodes(*(sample_rows(start, 20) for start in range(0, 200, 20)))
    with endpoint(echo) as server:
        run = start(
            made,
            transforms={
                "one": handler(server.url, parallelism=first),
                "two": handler(server.url, "one", parallelism=second, one_row_per_request=True),
            },
            sinks={
                "kept": {"type": "memory", "from": "two", "parallelism": last},
                "posted": {"type": "webhook", "from": "two", "url": server.url + "/posted", "parallelism": last},
            },
        )
        finish(run)
    assert sorted(collected_rows(run, "kept").column("id").to_pylist()) == list(range(200))
    posted = [row["id"] for request in server.accepted if request.path.endswith("/posted") for row in request.rows]
    assert sorted(posted) == list(range(200))
    assert made.position == {"given": 10}


@pytest.mark.parametrize("size", [0, 100])
def test_checkpoints_continue_while_rows_wait_for_a_full_batch(size):
    made = nodes(*(sample_rows(number, 1) for number in range(30)), ends=False)
    with endpoint(echo) as server:
        stored: list[int] = []
        made.state.before_store = lambda entries: stored.append(entries["given"])
        made.on_read = lambda number: time.sleep(0.02)
        run = start(
            made,
            transforms={"asked": handler(server.url, batch_size=size, batch_flush_interval="1h")},
            sinks={"ledger": {"type": "contract.ledger", "from": "asked"}},
        )
        eventually(lambda: made.position == {"given": 30}, 60, "the last position is stored while the source waits")
        assert len(set(stored)) > 1, "nothing was stored while rows came"
        assert [row["id"] for row in made.written_rows] == list(range(30))
        made.stop()
        finish(run)


def test_an_interval_alone_collects_the_rows_of_that_time():
    made = nodes(*(sample_rows(number, 1) for number in range(10)), ends=False)
    with endpoint(echo) as server:
        run = start(
            made,
            config=AppConfig(checkpoint_interval_sec=3600),
            transforms={"asked": handler(server.url, batch_flush_interval="300ms")},
            sinks={"ledger": {"type": "contract.ledger", "from": "asked"}},
        )
        eventually(lambda: len(made.received_rows) == 10, 60, "rows go out without a marker")
        made.stop()
        finish(run)
    assert len(server.requests) < 10


def test_a_slow_endpoint_holds_the_source_back():
    made = nodes(*(sample_rows(10 * number, 10) for number in range(200)))
    with endpoint(lambda request: Reply(text=request.text, seconds=0.002)) as server:
        most = []
        made.on_read = lambda number: most.append(number - len(server.accepted))
        run = start(
            made,
            config=AppConfig(checkpoint_interval_sec=3600),
            transforms={"asked": handler(server.url)},
            sinks={"ledger": {"type": "contract.ledger", "from": "asked"}},
        )
        finish(run)
    assert len(made.written_rows) == 2000
    assert max(most) <= 60, "batches pile up in front of the endpoint"


@pytest.mark.services
def test_postgres_and_webhook_receive_the_rows_of_one_handler(postgres):
    made = nodes(*(sample_rows(start, 10) for start in range(0, 50, 10)))
    settings = psycopg.conninfo.conninfo_to_dict(postgres.dsn)
    config = AppConfig(
        checkpoint_interval_sec=0.05,
        postgres_sink={
            "host": settings["host"],
            "port": int(settings["port"]) if "port" in settings else 5432,
            "user": settings["user"],
            "pass": settings.get("password", ""),
            "db": settings["dbname"],
        },
    )
    with endpoint(echo) as server:
        run = start(
            made,
            config=config,
            transforms={"asked": handler(server.url, schema_override={"score": "decimal(20, 4)"})},
            sinks={
                "table": {"type": "postgres", "from": "asked", "schema": "http_test", "table": "scored"},
                "hook": {"type": "webhook", "from": "asked", "url": server.url + "/hook"},
            },
        )
        finish(run)
    with closing(psycopg.connect(postgres.dsn, autocommit=True)) as connection:
        assert connection.execute("SELECT count(*), max(id) FROM http_test.scored").fetchone() == (50, 49)
        connection.execute("DROP SCHEMA http_test CASCADE")
    hooked = [row["id"] for request in server.accepted if request.path.endswith("/hook") for row in request.rows]
    assert sorted(hooked) == list(range(50))
    assert made.position == {"given": 5}


# ── with Spark ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spark
def test_sql_before_and_after_a_handler_sees_the_types_it_declares(spark, tmp_path):
    def answer(request: Request) -> Reply:
        if request.path.endswith("/hook"):
            return Reply()
        return Reply.of(
            [
                {"id": row["id"], "amount": f"{row['id']}.25", "big": str(2**63 - 1), "at": "2024-05-01T10:00:00Z"}
                for row in request.rows
            ]
        )

    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a.csv").write_text("id,name\n" + "".join(f"{n},n{n}\n" for n in range(20)))
    override = {"name": None, "amount": "decimal(20, 4)", "big": "int64", "at": "timestamp"}
    with endpoint(answer) as server:
        registry = Registry.builtin()
        sections = {
            "sources": {
                "orders": {
                    "type": "file",
                    "path": str(folder),
                    "format": "csv",
                    "mode": {"type": "bounded"},
                    "primary_key": "id",
                }
            },
            "transforms": {
                "even": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM orders WHERE id % 2 = 0"},
                "asked": handler(server.url, "even", schema_override=override, batch_size=3),
                "after": {
                    "type": "sql",
                    "primary_key": "id",
                    "sql": "SELECT id, amount * 2 AS twice, big, date_format(at, 'HH') AS hour FROM asked WHERE id > 9",
                },
            },
            "sinks": {
                "kept": {"type": "memory", "from": "after"},
                "hook": {"type": "webhook", "from": "after", "url": server.url + "/hook", "payload_version": 1},
            },
        }
        run = start_run(json.dumps(sections), registry, spark=spark)
        finish(run)
    rows = sorted(collected_rows(run, "kept").to_pylist(), key=lambda row: row["id"])
    assert rows == [
        {"id": n, "twice": Decimal(f"{2 * n}.5000"), "big": 2**63 - 1, "hour": "10", "_gs_op": "i"}
        for n in range(10, 20, 2)
    ]
    hooked = [row for request in server.accepted if request.path.endswith("/hook") for row in request.rows]
    assert sorted(row["data"]["id"] for row in hooked) == [10, 12, 14, 16, 18]
    asked = [request for request in server.accepted if request.path.endswith("/rows")]
    assert sorted(len(request.rows) for request in asked) == [1, 3, 3, 3]


@pytest.mark.spark
@pytest.mark.slow
def test_the_example_prints_the_good_orders(tmp_path):
    with subprocess.Popen([sys.executable, str(EXAMPLE / "server.py")], stdout=subprocess.PIPE, text=True) as server:
        run = subprocess.run(
            [sys.executable, "-m", "streamling", "run", str(EXAMPLE / "pipeline.yaml")],
            cwd=EXAMPLE.parents[1],
            env=_environment(tmp_path),
            capture_output=True,
            text=True,
            timeout=240,
        )
        server.terminate()
        printed, _ = server.communicate(timeout=30)
    assert run.returncode == 0, run.stderr
    rows = sorted((json.loads(line)["data"] for line in printed.splitlines()), key=lambda row: row["id"])
    assert rows == [
        {"id": 2, "country": "FR", "score": 2.5, "_gs_op": "i"},
        {"id": 3, "country": "IT", "score": 0.8, "_gs_op": "i"},
        {"id": 4, "country": "ES", "score": 0.51, "_gs_op": "i"},
    ]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "STREAMLING__STATE_BACKEND__SQLITE__DATABASE_PATH": str(folder / "state.db")}
