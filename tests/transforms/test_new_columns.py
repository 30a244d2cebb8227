"""Columns that appear in a topic while a pipeline runs, through every transform that works on Arrow."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from tests.connectors.kafka.source_driver import Topic, record
from tests.flagship.bench import Flagship
from tests.harness.endpoint import Endpoint, Reply, Request, echo, endpoint
from tests.harness.pipelines import Bench, eventually, finish

pytestmark = pytest.mark.spark

#: wider than Spark's decimals: only the metadata of the column says that its bytes are a number
_WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 0}
_FIRST = record("id", ("name", "string"))
_SECOND = record("id", ("name", "string"), ("note", ["null", "string"], None), ("wide", ["null", _WIDE], None))
_THIRD = record("id", ("name", "string"), ("note", ["null", "string"], None), ("last", ["null", "long"], None))
_FOURTH = record("id", ("name", "string"), ("strange", ["null", "string"], None))
_NUMBER = 10**45 + 1

_SAME = "function process(row) { return row }"
_STRICT = "function process(row) { if (row.name === 'bad') throw new Error('no'); return row }"
_SEEN = "function process(row) { return { id: row.id, seen: Object.keys(row).sort().join() } }"


def _refusing(request: Request) -> Reply:
    """Rejects bad rows of the node that has a dead-letter sink."""
    if request.path == "/strict" and any(row["name"] == "bad" for row in request.rows):
        return Reply(422, b"a bad row")
    return echo(request)


def _script(script: str, **fields: Any) -> dict[str, Any]:
    return {"type": "script", "from": "rows", "primary_key": "id", "language": "js", "script": script, **fields}


def _handler(server: Endpoint, path: str = "/rows", **fields: Any) -> dict[str, Any]:
    url = server.url.replace("/rows", path)
    return {"type": "handler", "from": "rows", "primary_key": "id", "url": url, **fields}


class Growing(Flagship):
    """One topic through every kind of transform at once."""

    server: Endpoint
    #: what the Postgres sink after a script does about columns that it lacks
    evolve = "add_columns"

    def text(self, topic: Topic, sinks: Any, source: Any) -> str:
        errors = {"errors": {"to": "bad"}}
        transforms = {
            "script": _script(_SAME),
            "script_batched": _script(_SAME, batch_size=2, batch_flush_interval="100ms"),
            "script_declared": _script(_SEEN, schema={"id": "int64", "seen": "string"}, parallelism=2),
            "script_errors": _script(_STRICT, **errors),
            "handler": _handler(self.server),
            "handler_errors": _handler(self.server, "/strict", **errors),
            "plugin": {"type": "double", "from": "rows", "primary_key": "id"},
            "after_script": {"type": "sql", "primary_key": "id", "sql": "SELECT * FROM script"},
        }
        nodes = {
            "sources": {"rows": {"type": "kafka", "topic": topic.name, "primary_key": "id"}},
            "transforms": transforms,
            "sinks": {
                **{f"to_{name}": {"type": "memory", "from": name} for name in transforms},
                "bad": {"type": "memory"},
                "table": {
                    "type": "postgres",
                    "from": "script_errors",
                    "schema": self.pg.schema,
                    "table": "grown",
                    "evolve": self.evolve,
                },
                "other_table": {
                    "type": "postgres",
                    "from": "handler",
                    "schema": self.pg.schema,
                    "table": "grown_by_handler",
                    "evolve": "add_columns",
                },
            },
        }
        return json.dumps(nodes)


@pytest.fixture
def growing(spark, kafka, registry, postgres) -> Iterator[Growing]:
    made = Growing(spark, kafka, registry, postgres)
    with endpoint(_refusing) as made.server:
        yield made


@contextmanager
def stopped(run: PipelineRun) -> Iterator[None]:
    try:
        yield
    finally:
        run.stop("the test has what it wants")
        finish(run)


def _rows(run: PipelineRun, sink: str) -> list[dict[str, Any]]:
    """Return rows by id; batches may differ in their columns."""
    found = [row for operator in run.graph.operators[sink] for batch in operator.batches for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["id"])


_ONE = {"id": 1, "name": "a", "_gs_op": "i"}
_PASSING = ("to_script", "to_script_batched", "to_script_errors", "to_handler", "to_handler_errors", "to_after_script")


@pytest.mark.services
def test_a_column_that_appears_while_running_passes_every_transform(growing: Growing, caplog) -> None:
    topic = growing.topic()
    topic.write(_FIRST, {"id": 1, "name": "a"}, {"id": 2, "name": "bad"})
    run = growing.begin(topic, {})
    with stopped(run), caplog.at_level(logging.WARNING):
        growing.committed(run, topic)
        topic.write(
            _SECOND,
            {"id": 3, "name": "c", "note": "new", "wide": Decimal(_NUMBER)},
            {"id": 4, "name": "bad", "note": "newer", "wide": None},
            {"id": 5, "name": "e", "note": None, "wide": None},
        )
        growing.committed(run, topic)

    for sink in _PASSING:
        found = {row["id"]: row for row in _rows(run, sink)}
        assert found[1] == _ONE, sink
        assert found[3]["note"] == "new", sink
        assert found[5]["note"] is None, sink
        assert set(found) == ({1, 3, 5} if sink.endswith("errors") else {1, 2, 3, 4, 5}), sink
    assert [(row["id"], row.get("note"), row["double"]) for row in _rows(run, "to_plugin")] == [
        (1, None, 2), (2, None, 4), (3, "new", 6), (4, "newer", 8), (5, None, 10),
    ]  # fmt: skip
    seen = {row["id"]: row["seen"] for row in _rows(run, "to_script_declared")}
    assert (seen[1], seen[3]) == ("_gs_op,id,name", "_gs_op,id,name,note,wide")
    warnings = [record.message for record in caplog.records if "script_declared" in record.name]
    assert warnings == ["columns have appeared in the input that are not part of the output: 'note', 'wide'"]

    payloads = {(row["node"], row["position"]): json.loads(row["payload"]) for row in _rows(run, "bad")}
    assert set(payloads) == {(node, f"id={n}") for node in ("script_errors", "handler_errors") for n in (2, 4)}
    assert payloads["script_errors", "id=4"]["note"] == "newer"
    assert payloads["handler_errors", "id=4"]["note"] == "newer"

    for table in ("grown", "grown_by_handler"):
        found = [row for row in growing.table(table, "id, name, note, wide") if row[1] != "bad"]
        assert found == [(1, "a", None, None), (3, "c", "new", Decimal(_NUMBER)), (5, "e", None, None)], table

    # a column that appears right after a restart, and one that disappears
    run = growing.begin(topic, {})
    topic.write(_THIRD, {"id": 7, "name": "g", "note": "y", "last": 1})
    with stopped(run):
        growing.committed(run, topic)
    for sink in _PASSING:
        assert _rows(run, sink) == [{"id": 7, "name": "g", "note": "y", "last": 1, "_gs_op": "i"}], sink
    assert growing.table("grown", "id, wide, last")[-1] == (7, None, 1)

    # a table that must not change
    growing.evolve = "none"
    run = growing.begin(topic, {})
    topic.write(_FOURTH, {"id": 8, "name": "h", "strange": "z"})
    with pytest.raises(StreamlingError, match=r"postgres sink 'table'.*'strange'") as raised:
        finish(run)
    assert not raised.value.internal


def test_columns_of_later_files_pass_scripts_and_handlers(spark, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1, "inner": {"a": 1}}\n')
    with endpoint(echo) as server:
        nodes = {
            "sources": {"rows": {"type": "file", "path": str(tmp_path), "format": "json", "primary_key": "id"}},
            "transforms": {"scripted": _script(_SAME), "asked": _handler(server)},
            "sinks": {f"to_{name}": {"type": "memory", "from": name} for name in ("scripted", "asked")},
        }
        nodes["sources"]["rows"]["mode"] = {"type": "continuous", "poll_interval": "100ms"}
        run = Bench(spark).start(json.dumps(nodes))
        with stopped(run):
            eventually(lambda: all(_rows(run, sink) for sink in nodes["sinks"]), 60)
            (tmp_path / "later").write_text('{"id": 2, "inner": {"a": 2, "b": "x"}, "note": "new"}\n')
            (tmp_path / "later").rename(tmp_path / "b.json")
            eventually(lambda: all(len(_rows(run, sink)) == 2 for sink in nodes["sinks"]), 60)
    for sink in nodes["sinks"]:
        before, after = _rows(run, sink)
        assert before == {"id": 1, "inner": {"a": 1}, "_gs_op": "i"}, sink
        assert after == {"id": 2, "inner": {"a": 2, "b": "x"}, "note": "new", "_gs_op": "i"}, sink
