"""Dynamic tables on a real server: the layout, writes by others, the cache, errors."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from streamling.connectors.postgres.dynamic_table_layout import index_name
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.transforms.dynamic_table.backends import create_store
from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions
from tests.harness.pipelines import eventually
from tests.transforms.dynamic_table.conftest import schema

__all__ = ["schema"]

pytestmark = pytest.mark.services


@contextmanager
def store(
    schema: Any,
    /,
    *,
    backend: dict[str, Any] | None = None,
    max_batch_size: int = 1000,
    read_only: bool = False,
    **options: Any,
):
    fields = {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "t", **options}
    settings = {"postgres": {**schema.settings, **(backend or {})}, "max_batch_size": max_batch_size}
    context = NodeContext(
        name="seen",
        options=DynamicTableTransformOptions.model_validate(fields),
        config=AppConfig(dynamic_table_backend=settings),
        state=UnavailableState("none here"),
        metrics=NoopMetrics(),
        read_only=read_only,
    )
    with closing(create_store(context)) as made:
        yield made


CACHED = {"cache": True, "time_column": "updated_at", "cache_refresh_debounce_ms": 0}


def test_a_missing_table_is_created_with_its_key_its_time_and_an_index(schema):
    with store(schema) as table:
        assert table.find_existing(["a"]) == set()
    columns = schema.execute(
        "SELECT column_name::text, data_type::text, is_nullable::text, column_default FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = 't' ORDER BY ordinal_position",
        schema.name,
    )
    assert columns == [
        ("value", "text", "NO", None),
        ("updated_at", "timestamp with time zone", "NO", "clock_timestamp()"),
    ]
    indexes = schema.execute("SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = %s", schema.name)
    assert sorted(name for name, _ in indexes) == ["idx_t_updated_at", "t_pkey"]
    assert "UNIQUE" in dict(indexes)["t_pkey"]
    assert dict(indexes)["t_pkey"].endswith("(value)")


def test_a_preview_reads_a_table_and_keeps_what_it_adds_to_itself(schema):
    with store(schema) as table:
        table.add(["old"])
    with store(schema, read_only=True, **CACHED) as table:
        table.add(["new"])
        assert table.find_existing(["old", "new", "other"]) == {"old", "new"}
    assert schema.values() == ["old"]


def test_a_preview_does_not_create_a_table(schema):
    with store(schema, read_only=True) as table:
        table.add(["new"])
        assert table.find_existing(["old", "new"]) == {"new"}
    assert schema.execute("SELECT 1 FROM information_schema.tables WHERE table_schema = %s", schema.name) == []


def test_names_come_from_the_options(schema):
    other = f"{schema.name}_b"
    try:
        with store(schema, schema=other, column="Id", time_column="at") as table:
            table.add(["a"])
        rows = schema.execute(f'SELECT "Id", at IS NOT NULL FROM {other}.t')
        assert rows == [("a", True)]
    finally:
        schema.execute(f"DROP SCHEMA IF EXISTS {other} CASCADE")


def test_an_index_name_too_long_for_postgres_ends_in_a_hash():
    assert index_name("t", "at") == "idx_t_at"
    long = index_name("t" * 60, "updated_at")
    assert len(long) == 63
    assert long.startswith("idx_ttt")
    # 64-bit FNV-1a of the whole name
    assert long != index_name("t" * 60, "updated_ad")
    assert int(long[-16:], 16) >= 0


def test_values_are_looked_up_and_added_in_chunks_and_once(schema):
    with store(schema, max_batch_size=3) as table:
        table.add([f"v{n}" for n in range(10)])
        table.add(["v9", "v10"])
        assert table.find_existing([f"v{n}" for n in range(5, 15)]) == {f"v{n}" for n in range(5, 11)}
    assert len(schema.values()) == 11


@pytest.mark.parametrize(("settings", "connections"), [({}, 1), ({"max_connections": 3}, 3)])
def test_look_ups_of_many_values_use_the_connections_allowed(schema, settings, connections):
    values = [f"v{n}" for n in range(20)]
    with store(schema, backend=settings, max_batch_size=3, column="v") as table:
        table.add(values[::2])
        assert table.find_existing(values) == set(values[::2])
        assert table.find_existing(["v0"]) == {"v0"}
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamling seen'"
        eventually(lambda: schema.execute(query) == [(connections,)])  # those of an earlier test may linger


def test_changes_by_others_are_seen_at_the_next_look_up(schema):
    with store(schema) as table:
        table.add(["a"])
        schema.execute("INSERT INTO {t} (value) VALUES ('b')")
        assert table.find_existing(["a", "b"]) == {"a", "b"}
        schema.execute("DELETE FROM {t} WHERE value = 'a'")
        assert table.find_existing(["a", "b"]) == {"b"}


def test_an_existing_table_needs_only_the_column(schema):
    schema.create("value varchar(20), note int")
    schema.execute("INSERT INTO {t} (value) VALUES ('a')")
    with store(schema, backend={"cache_enabled": True}) as table:  # no time_column: no cache
        table.add(["a", "b"])
        assert table.find_existing(["a", "b", "c"]) == {"a", "b"}
    assert schema.values() == ["a", "b"]


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id int", {}, ["no column 'value'", "(id)", "`column`"]),
        ("value int", {}, ["has type integer", "text", "TEXT"]),
        ("value text", CACHED, ["no column 'updated_at'", "cache", "`cache: false`"]),
        ("value text, updated_at json", CACHED, ["has type json", "no order", "`cache: false`"]),
    ],
)
def test_a_table_that_does_not_fit_is_rejected_immediately(schema, columns, options, words):
    schema.create(columns)
    with store(schema, **options) as table, pytest.raises(StreamlingError) as refused:
        table.find_existing(["a"])
    assert not refused.value.retriable
    assert not refused.value.internal
    for word in words:
        assert word in f"{refused.value} ({refused.value.remedy})"


def test_a_table_without_a_time_column_is_not_cached(schema):
    schema.create("value text")
    with store(schema, backend={"cache_enabled": True}, cache=False, time_column="updated_at") as table:
        table.add(["a"])
        assert table.find_existing(["a"]) == {"a"}


def test_a_cache_loads_several_pages_and_sees_later_writes(schema):
    with store(schema) as table:
        table.add([f"v{n}" for n in range(2500)])
    with store(schema, **CACHED) as table:
        assert len(table.find_existing([f"v{n}" for n in range(3000)])) == 2500
        schema.execute("INSERT INTO {t} (value) VALUES ('later')")
        assert table.find_existing(["later"]) == {"later"}
        schema.execute("DELETE FROM {t}")
        assert table.find_existing(["later"]) == {"later"}


def test_an_existing_cached_table_is_appended_with_the_time(schema):
    schema.create("value text, updated_at timestamptz")
    with store(schema, **CACHED) as table:
        assert table.find_existing(["a"]) == set()
        table.add(["a"])
    assert schema.execute("SELECT value, updated_at IS NOT NULL FROM {t}") == [("a", True)]


def test_writers_of_a_cached_table_take_turns(schema, postgres):
    """A writer holds the lock: what another one appends gets a later time and is not missed."""
    dsn = f"host=127.0.0.1 port={postgres.port} dbname=postgres user=postgres"
    with store(schema, **CACHED) as table, psycopg.connect(dsn) as writer:
        assert table.find_existing(["a", "b"]) == set()
        writer.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"{schema.name}.t",))
        writer.execute(f"INSERT INTO {schema.name}.t (value) VALUES ('a')")
        appending = threading.Thread(target=table.add, args=(["b"],))
        appending.start()
        waits = (
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND objid = (hashtext(%s)::bigint & 4294967295)::oid"
        )
        eventually(lambda: schema.execute(waits, f"{schema.name}.t")[0][0], 20, "it does not wait for its turn")
        writer.commit()
        appending.join(20)
        assert table.find_existing(["a", "b"]) == {"a", "b"}
        times = schema.execute("SELECT value FROM {t} ORDER BY updated_at")
        assert times == [("a",), ("b",)]


def test_transient_errors_of_a_table_are_retried(schema):
    with store(schema) as table:
        table.add(["a"])
        schema.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'streamling seen'"
        )
        assert table.find_existing(["a"]) == {"a"}


def test_a_wrong_database_is_reported_immediately(schema):
    with store(schema, backend={"db": "nowhere"}) as table, pytest.raises(StreamlingError) as refused:
        table.find_existing(["a"])
    assert "nowhere" in str(refused.value)
    assert not refused.value.retriable


def test_a_nul_cannot_be_stored_and_is_never_found(schema):
    with store(schema) as table:
        assert table.find_existing(["a\x00"]) == set()
        with pytest.raises(StreamlingError, match="NUL"):
            table.add(["a\x00"])
