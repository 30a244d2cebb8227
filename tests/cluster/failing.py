"""Pipelines that fail in a node, one after the other on one session, and the error that the user sees for each.

As a program it takes one argument, JSON: the master, the folder with the files, the Postgres DSN, the port of the
endpoint, Pythons for the workers, and Spark settings. It prints the errors as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.core import default_cache_dir
from streamling.plugins.registry import Registry
from streamling.spark.jvm.session import SparkDriver
from streamling.spark.jvm.workers import WorkerCheck
from tests.harness.pipelines import start_run
from tests.harness.plugins import load_plugins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGINS = Path(__file__).with_name("breaking.py")

ORDERS = {"type": "file", "path": "orders", "format": "csv", "mode": {"type": "bounded"}, "primary_key": "id"}
NOWHERE = {"type": "blackhole", "from": "node"}

_SCRIPT = "function process(row) { if (row.id == 77) { throw new Error('no 77 here'); } return row; }"

#: case → the nodes behind the source ``orders``; the one at fault is called ``node``
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "script": (
        {"node": {"type": "script", "from": "orders", "language": "js", "primary_key": "id", "script": _SCRIPT}},
        {"out": NOWHERE},
    ),
    "plugin": ({"node": {"type": "breaking.raises", "from": "orders"}}, {"out": NOWHERE}),
    "handler": (
        {"node": {"type": "handler", "from": "orders", "primary_key": "id", "url": "http://127.0.0.1:$port/none"}},
        {"out": NOWHERE},
    ),
    "cast": (
        {"node": {"type": "sql", "primary_key": "id", "sql": "SELECT id, CAST(item AS INT) AS n FROM orders"}},
        {"out": NOWHERE},
    ),
    "function": (
        {"node": {"type": "sql", "primary_key": "id", "sql": "SELECT id, breaking_function(id) AS n FROM orders"}},
        {"out": NOWHERE},
    ),
    "constraint": (
        {},
        {"node": {"type": "postgres", "from": "orders", "schema": "$schema", "table": "limited"}},
    ),
    "plugin sink": ({}, {"node": {"type": "breaking.full", "from": "orders"}}),
    "module": ({"node": {"type": "breaking.imports", "from": "orders"}}, {"out": NOWHERE}),
    "exit": ({"node": {"type": "breaking.exits", "from": "orders"}}, {"out": NOWHERE}),
}


def main(master: str, folder: str, dsn: str, port: int, pythons: dict[str, str], conf: dict[str, str]) -> None:
    os.chdir(folder)
    # the first failure counts: Spark's retries take time; so does the start of a second executor
    conf = {"spark.task.maxFailures": "1", "spark.cores.max": "1", **conf}
    runtime = SparkDriver.start(master=master, conf=conf, cache_dir=default_cache_dir(os.environ), quick=True)
    try:
        found: dict[str, Any] = failures(runtime.session(), master, dsn, port, list(CASES))
        found |= {name: _refused(runtime.session(), path) for name, path in pythons.items()}
        print(json.dumps(found))
    finally:
        runtime.stop()


def failures(session: SparkSession, master: str, dsn: str, port: int, cases: list[str]) -> dict[str, dict[str, Any]]:
    """The error of each case; the working directory has the files."""
    parts = psycopg.conninfo.conninfo_to_dict(dsn)
    server = {"host": parts["host"], "port": int(parts["port"]), "user": parts["user"], "db": parts["dbname"]}
    sink = {**server, "sslmode": "disable"}
    config = AppConfig.model_validate({"spark": {"master": master}, "postgres_sink": sink})
    return {name: _failure(session, config, name, port) for name in cases}


def _refused(session: SparkSession, python: str) -> dict[str, Any] | None:
    """The error about workers whose Python is ``python``; None if they are accepted."""
    session.sparkContext.pythonExec = python
    try:
        WorkerCheck(session, needs_python=True).wait(lambda: False)
    except StreamlingError as error:
        return _reported(error)
    return None


def _reported(error: StreamlingError) -> dict[str, Any]:
    return {
        "message": str(error),
        "causes": list(error.causes()),
        "remedy": error.remedy,
        "flags": [error.internal, error.retriable],
    }


def _failure(session: SparkSession, config: AppConfig, name: str, port: int) -> dict[str, Any]:
    transforms, sinks = CASES[name]
    text = json.dumps({"sources": {"orders": ORDERS}, "transforms": transforms, "sinks": sinks})
    registry = load_plugins(Registry.builtin(), PLUGINS)
    text = text.replace("$port", str(port)).replace("$schema", "failing")
    try:
        start_run(text, registry, spark=session, config=config).wait()
    except StreamlingError as error:
        return _reported(error)
    raise AssertionError(f"{name} ended well")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
