"""The table: created, checked, extended."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import batch
from tests.harness.concurrent import failures_of

pytestmark = pytest.mark.services

ROWS = batch(("i", 1, "a"))


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


def primary_key(pg: Driver) -> list[str]:
    rows = pg.execute(
        "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
        " WHERE i.indrelid = to_regclass(%s) AND i.indisprimary",
        f"{pg.schema}.t",
    )
    return [row[0] for row in rows]


# ── making ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_schema_and_table_are_created_with_the_key_and_without_the_operation(pg: Driver) -> None:
    with pg.opened(ROWS.schema):
        assert pg.types() == {"id": "bigint", "v": "text"}
        assert primary_key(pg) == ["id"]


def test_columns_other_than_the_key_may_be_null(pg: Driver) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
    pg.write(pa.record_batch([pa.array([1]), pa.array([None], pa.string())], schema=schema))
    assert pg.rows() == [(1, None)]


def test_without_a_key_the_table_has_none(pg: Driver) -> None:
    pg.write(ROWS, key=())
    assert primary_key(pg) == []


def test_describing_a_sink_does_not_connect(pg: Driver) -> None:
    Driver(pg.dsn, port=1).sink(ROWS.schema)


def test_instances_that_start_together_may_all_create_the_table(pg: Driver) -> None:
    assert failures_of(8, lambda number: pg.write(batch(("i", number, "a")))) == []
    assert len(pg.rows()) == 8


def limited_user(pg: Driver, *grants: str) -> Driver:
    role = f"{pg.schema}_user"
    pg.execute(f"CREATE ROLE {role} LOGIN")
    for grant in grants:
        pg.execute(grant.replace("ROLE", role))
    return Driver(pg.dsn, schema=pg.schema, user=role)


def test_a_user_without_create_rights_can_write_to_an_existing_table(pg: Driver) -> None:
    pg.create("id bigint primary key, v text")
    limited = limited_user(pg, "GRANT USAGE ON SCHEMA {s} TO ROLE", "GRANT ALL ON {t} TO ROLE")
    limited.write(ROWS)
    assert pg.rows() == [(1, "a")]


def test_a_user_of_a_schema_need_not_be_allowed_to_create_schemas(pg: Driver) -> None:
    pg.execute("CREATE SCHEMA {s}")
    limited_user(pg, "GRANT ALL ON SCHEMA {s} TO ROLE").write(ROWS)
    assert pg.rows() == [(1, "a")]


@pytest.mark.parametrize(
    ("grants", "message"),
    [
        ([], "permission denied for table t"),
        (["GRANT SELECT ON {t} TO ROLE"], "permission denied for table t"),
    ],
)
def test_a_missing_right_is_a_permanent_error(pg: Driver, grants: list[str], message: str) -> None:
    pg.create("id bigint primary key, v text")
    limited = limited_user(pg, "GRANT USAGE ON SCHEMA {s} TO ROLE", *grants)
    with pytest.raises(StreamlingError, match=message) as raised:
        limited.write(ROWS)
    assert not raised.value.internal
    assert "GRANT" in (raised.value.remedy or "")


def test_a_missing_right_to_create_the_schema_is_a_permanent_error(pg: Driver) -> None:
    with pytest.raises(StreamlingError, match="permission denied for database postgres"):
        limited_user(pg).write(ROWS)


# ── comparing ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_column_is_an_error_with_its_name_and_remedies(pg: Driver) -> None:
    pg.create("id bigint primary key")
    with pytest.raises(StreamlingError, match=rf"table {pg.schema}\.t has no column 'v' \(TEXT\)") as raised:
        pg.sink(ROWS.schema).open()
    assert not raised.value.internal
    assert not raised.value.retriable
    assert "evolve: add_columns" in (raised.value.remedy or "")


def test_a_column_of_another_type_is_an_error_with_both_types(pg: Driver) -> None:
    pg.create("id bigint primary key, v integer")
    with pytest.raises(StreamlingError, match=r"column 'v' .* has type integer, expected TEXT") as raised:
        pg.sink(ROWS.schema).open()
    assert not raised.value.internal


def test_a_table_without_an_index_on_the_key_is_an_error(pg: Driver) -> None:
    pg.create("id bigint, v text unique")
    with pytest.raises(StreamlingError, match=r"no primary key or unique index on \(id\)"):
        pg.sink(ROWS.schema).open()


@pytest.mark.parametrize(
    "index",
    [
        "UNIQUE (b, id)",
        "PRIMARY KEY (id, b)",
        "UNIQUE (id, b) INCLUDE (v)",
    ],
)
def test_any_unique_index_on_exactly_the_key_is_accepted(pg: Driver, index: str) -> None:
    pg.create(f"id bigint, b text, v text, other int default 5, {index}")
    names = ("id", "b", "v")
    pg.write(batch(("i", 1, "x", "a"), ("u", 1, "x", "b"), names=names), key=("id", "b"))
    assert pg.rows() == [(1, "x", "b", 5)]


@pytest.mark.parametrize(
    "index",
    ["CREATE UNIQUE INDEX ON {t} (id) WHERE v IS NOT NULL", "CREATE UNIQUE INDEX ON {t} (abs(id))",
     "CREATE UNIQUE INDEX ON {t} (id, v)", "CREATE INDEX ON {t} (id)"],
)  # fmt: skip
def test_an_index_that_does_not_guarantee_the_key_is_rejected(pg: Driver, index: str) -> None:
    pg.create("id bigint, v text")
    pg.execute(index)
    with pytest.raises(StreamlingError, match="no primary key or unique index"):
        pg.sink(ROWS.schema).open()


def test_further_columns_of_the_table_keep_their_values_and_defaults(pg: Driver) -> None:
    pg.create("made timestamptz default '2020-01-01Z', v text, id bigint primary key, serial bigserial")
    pg.write(ROWS)
    pg.execute("UPDATE {t} SET made = '2021-01-01Z'")
    pg.write(batch(("u", 1, "b")))
    assert pg.execute("SELECT id, v, serial, extract(year FROM made) FROM {t}") == [(1, "b", 1, 2021)]


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("varchar(5)", "abc", "abc"),
        ("uuid", "123E4567-E89B-12D3-A456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("jsonb", '{"a": 1}', '{"a": 1}'),
        ("{s}.mood", "happy", "happy"),
        ("{s}.short", "abc", "abc"),
    ],
)
def test_text_can_be_written_to_types_with_a_text_form(pg: Driver, column: str, value: str, expected: str) -> None:
    pg.execute("CREATE SCHEMA {s}")
    pg.execute("CREATE TYPE {s}.mood AS ENUM ('happy', 'sad')")
    pg.execute("CREATE DOMAIN {s}.short AS varchar(5)")
    pg.create(f"id bigint primary key, v {column}")
    pg.write(batch(("i", 1, value)))
    assert pg.execute("SELECT v::text FROM {t}") == [(expected,)]


def test_a_timestamp_in_a_column_with_a_zone_is_that_moment_whatever_the_servers_zone(pg: Driver) -> None:
    pg.create("id bigint primary key, v timestamptz")
    pg.execute(f"CREATE ROLE {pg.schema}_zoned LOGIN SUPERUSER")
    pg.execute(f"ALTER ROLE {pg.schema}_zoned SET timezone = 'Asia/Tokyo'")
    zoned = Driver(pg.dsn, schema=pg.schema, user=f"{pg.schema}_zoned")
    zoned.write(batch(("i", 1, 0), names=("id", "v"), types=(pa.int64(), pa.timestamp("us"))))
    assert pg.execute("SELECT extract(epoch FROM v)::int FROM {t}") == [(0,)]


def test_a_role_with_another_date_style_reads_dates_the_same(pg: Driver) -> None:
    pg.execute(f"CREATE ROLE {pg.schema}_styled LOGIN SUPERUSER")
    pg.execute(f"ALTER ROLE {pg.schema}_styled SET datestyle = 'SQL, DMY'")
    styled = Driver(pg.dsn, schema=pg.schema, user=f"{pg.schema}_styled")
    styled.write(batch(("i", 1, 31), names=("id", "v"), types=(pa.int64(), pa.date32())))
    assert pg.execute("SELECT v::text FROM {t}") == [("1970-02-01",)]


def test_partitions_and_triggers_of_the_table_work(pg: Driver) -> None:
    pg.execute("CREATE SCHEMA {s}")
    pg.execute("CREATE TABLE {t} (id bigint, v text, PRIMARY KEY (id)) PARTITION BY RANGE (id)")
    pg.execute("CREATE TABLE {s}.low PARTITION OF {t} FOR VALUES FROM (0) TO (10)")
    pg.execute("CREATE TABLE {s}.high PARTITION OF {t} FOR VALUES FROM (10) TO (20)")
    pg.write(batch(("i", 1, "a"), ("i", 11, "a"), ("u", 1, "b"), ("d", 11, None)))
    assert pg.rows() == [(1, "b")]


# ── evolving ────────────────────────────────────────────────────────────────────────────────────────────────


def test_add_columns_adds_what_is_missing_and_keeps_the_rest(pg: Driver) -> None:
    pg.write(ROWS)
    wider = batch(
        ("u", 2, "b", 5, [1]),
        names=("id", "v", "n", "l"),
        types=(pa.int64(), pa.string(), pa.int32(), pa.list_(pa.int64())),
    )
    pg.write(wider, evolve="add_columns")

    assert pg.types() == {"id": "bigint", "v": "text", "n": "integer", "l": "jsonb"}
    assert pg.rows() == [(1, "a", None, None), (2, "b", 5, [1])]


def test_instances_may_add_the_same_column_together(pg: Driver) -> None:
    pg.write(ROWS)
    wider = batch(("u", 2, "b", "c"), names=("id", "v", "w")).schema
    failures: list[Exception] = []

    def start() -> None:
        try:
            with pg.opened(wider, evolve="add_columns"):
                pass
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(pg.types()) == ["id", "v", "w"]


def test_add_columns_does_not_change_types(pg: Driver) -> None:
    pg.create("id bigint primary key, v integer")
    with pytest.raises(StreamlingError, match="column 'v'"):
        pg.sink(ROWS.schema, evolve="add_columns").open()


def test_a_stream_that_lost_a_column_keeps_its_values(pg: Driver) -> None:
    pg.write(batch(("i", 1, "a", "b"), names=("id", "v", "w")))
    pg.write(batch(("u", 1, "c")))
    assert pg.rows() == [(1, "c", "b")]


def test_a_column_dropped_under_a_running_sink_is_a_permanent_error(pg: Driver) -> None:
    with pg.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        pg.execute("ALTER TABLE {t} DROP COLUMN v")
        with pytest.raises(StreamlingError, match=r'column "v" .*does not exist') as raised:
            sink.write(ROWS)
    assert not raised.value.retriable


def test_a_table_dropped_under_a_running_sink_is_a_permanent_error(pg: Driver) -> None:
    with pg.opened(ROWS.schema) as sink:
        sink.write(ROWS)
        pg.execute("DROP TABLE {t}")
        with pytest.raises(StreamlingError, match="does not exist") as raised:
            sink.write(ROWS)
    assert not raised.value.retriable
