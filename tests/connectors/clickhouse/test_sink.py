"""The sink against the real server: both modes, tables that it creates or finds, keys, versions, deletes."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.errors import BadRow, StreamlingError
from tests.connectors.clickhouse.driver import Database, SinkDriver
from tests.connectors.sink_driver import Row, batch

pytestmark = pytest.mark.services

MODES = pytest.mark.parametrize("append_only_mode", [True, False], ids=["append-only", "with deletes"])


@pytest.fixture
def driver(database: Database) -> SinkDriver:
    return SinkDriver(database)


def definition(driver: SinkDriver) -> str:
    ((text,),) = driver.database.rows(
        f"SELECT engine_full FROM system.tables WHERE database = '{driver.database.name}' AND name = 't'"
    )
    return str(text)


# ── the table ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_table_replaces_rows_by_insert_time_and_knows_deleted_ones(driver) -> None:
    driver.write(batch(("i", 1, "a")))
    assert driver.database.types("t") == {
        "id": "Int64",
        "v": "Nullable(String)",
        "is_deleted": "UInt8",
        "insert_time": "DateTime64(9)",
    }
    assert definition(driver).startswith("ReplacingMergeTree(insert_time, is_deleted) ORDER BY (id) ")
    assert driver.rows("id, v, is_deleted, insert_time > now() - 60") == [(1, "a", 0, 1)]


@pytest.mark.parametrize("deduplicate", [True, False])
def test_no_two_rows_of_a_new_table_have_equal_versions(driver, deduplicate) -> None:
    changes = [("idu"[n % 3], n % 7, f"{n}") for n in range(1000)]
    driver.write(*(batch(*changes[at : at + 100]) for at in range(0, 1000, 100)), deduplicate=deduplicate)
    assert driver.rows("count() > 0, count() - uniqExact(insert_time)", final=False) == [(1, 0)]
    newest = "SELECT id, argMax(v, insert_time), argMax(is_deleted, insert_time) FROM t GROUP BY id"
    remaining = f"SELECT * FROM ({newest}) AS newest (id, v, is_deleted) WHERE is_deleted = 0 ORDER BY id"
    assert [(id_, v) for id_, v, _ in driver.database.rows(remaining)] == driver.rows()


def test_a_table_of_an_earlier_version_shows_the_last_operation_of_keys_changed_within_a_second(driver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, v Nullable(String), is_deleted UInt8, insert_time DateTime DEFAULT now())"
        " ENGINE ReplacingMergeTree(insert_time, is_deleted) ORDER BY id"
    )
    for number in range(5):
        driver.write(batch(("i", 1, f"a{number}"), ("i", 2, "b")), batch(("d", 1, None)))
        driver.write(batch(("d", 2, None), ("i", 1, f"c{number}")))
        assert driver.rows() == [(1, f"c{number}")]


def test_a_new_table_with_a_version_column_has_no_insert_time(driver) -> None:
    driver.write(batch(("i", 1, 5), names=("id", "n"), types=[pa.int64()] * 2), version_column_name="n")
    assert driver.database.types("t") == {"id": "Int64", "n": "Int64", "is_deleted": "UInt8"}
    assert definition(driver).startswith("ReplacingMergeTree(n, is_deleted)")


def test_a_new_table_that_rows_are_deleted_from_has_only_the_columns_of_the_input(driver) -> None:
    rows = batch(("i", 1, 2, "a"), names=("b", "a", "v"), types=[pa.int64(), pa.int64(), pa.string()])
    driver.write(rows, key=("b", "a"), append_only_mode=False)
    assert driver.database.types("t") == {"b": "Int64", "a": "Int64", "v": "Nullable(String)"}
    assert definition(driver).startswith("ReplacingMergeTree ORDER BY (b, a) ")


def test_a_new_table_remembers_tokens(driver) -> None:
    driver.write(batch(("i", 1, "a")))
    assert "non_replicated_deduplication_window = 1000" in definition(driver)


def test_rows_are_stored_when_an_insert_returns(driver) -> None:
    """Newer servers collect the rows of several inserts by default, and do not compare their tokens."""
    rows = batch(("i", 1, "a"))
    with driver.opened(rows.schema) as sink:
        assert sink.writer.settings["async_insert"] == "0"


def test_names_may_contain_anything(driver) -> None:
    names = ("weird `key`", "a.b\\c", "ü'\"")
    driver.write(batch(("i", 1, "a", "b"), names=names), key=names[:1], table="t` (x) --")
    assert driver.database.rows("SELECT * EXCEPT (insert_time) FROM `t\\` (x) --`") == [(1, "a", "b", 0)]


def test_a_table_of_another_database_can_be_named(driver) -> None:
    driver.settings["database"] = "default"
    driver.write(batch(("i", 1, "a")), table=f"{driver.database.name}.t")
    assert driver.rows() == [(1, "a")]


def test_a_database_that_does_not_exist_is_an_error(driver) -> None:
    with pytest.raises(StreamlingError) as caught:
        driver.write(batch(("i", 1, "a")), table="nowhere.t")
    assert "has no database 'nowhere'" in str(caught.value)
    assert caught.value.remedy == "create it, or correct `table` or clickhouse_sink.database"


def test_columns_that_an_existing_table_does_not_have_are_dropped_with_a_warning(driver, caplog) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v String, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    with caplog.at_level(logging.WARNING):
        driver.write(batch(("i", 1, "a", "b", "c"), names=("id", "v", "w", "x")))
    assert driver.rows("*", final=False) == [(1, "a", 0)]
    assert [record.message for record in caplog.records] == [
        f"columns are not written, because table {driver.database.name}.t has no column for them: 'w', 'x'"
    ]


def test_columns_that_have_values_of_their_own_may_be_missing_in_the_input(driver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, n Nullable(Int8), d String DEFAULT 'x', m Int64 MATERIALIZED id + 1,"
        " a Int64 ALIAS id + 2, is_deleted UInt8) ENGINE MergeTree ORDER BY id"
    )
    driver.write(batch(("i", 1), names=("id",)))
    assert driver.rows("id, n, d, m, a", final=False) == [(1, None, "x", 2, 3)]


def test_columns_without_a_value_are_an_error_that_names_them(driver) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v String, w String, x Array(Int8)) ENGINE MergeTree ORDER BY id")
    with pytest.raises(StreamlingError) as caught:
        driver.write(batch(("i", 1, "a")))
    assert caught.value.message == (
        f"the input has no column for w, x of table {driver.database.name}.t, which are neither Nullable nor have a "
        "DEFAULT"
    )


def test_columns_that_the_server_computes_are_not_written(driver, caplog) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, v String MATERIALIZED 'm', w String ALIAS 'a', is_deleted UInt8)"
        " ENGINE MergeTree ORDER BY id"
    )
    with caplog.at_level(logging.WARNING):
        driver.write(batch(("i", 1, "x", "y"), names=("id", "v", "w")))
    assert driver.rows("id, v, w", final=False) == [(1, "m", "a")]
    assert "computes its own values for them: 'v', 'w'" in caplog.text


def test_null_becomes_the_default_that_a_column_declares(driver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, v String DEFAULT 'none', is_deleted UInt8) ENGINE MergeTree ORDER BY id"
    )
    driver.write(batch(("i", 1, None), ("i", 2, "a")))
    assert driver.rows(final=False) == [(1, "none"), (2, "a")]


@pytest.mark.parametrize("option", ["primary_key", "version_column_name"])
def test_a_table_without_a_column_that_an_option_names_is_an_error(driver, option) -> None:
    driver.database.execute("CREATE TABLE t (k Int64) ENGINE MergeTree ORDER BY k")
    names, types = ("k", "id"), [pa.int64(), pa.int64()]
    more = {"key": ("id",)} if option == "primary_key" else {"key": ("k",), "version_column_name": "id"}
    with pytest.raises(StreamlingError, match=f"has no column 'id', which `{option}` names"):
        driver.write(batch(("i", 1, 2), names=names, types=types), **more)


def test_columns_of_a_nested_structure_are_written_by_their_names(driver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, n Nested(a Int8, b String), is_deleted UInt8) ENGINE MergeTree ORDER BY id"
    )
    types = [pa.int64(), pa.list_(pa.int64()), pa.list_(pa.string())]
    driver.write(batch(("i", 1, [1, 2], ["x", "y"]), names=("id", "n.a", "n.b"), types=types))
    assert driver.rows("id, n.a, n.b", final=False) == [(1, [1, 2], ["x", "y"])]


def test_columns_that_appear_while_the_pipeline_runs_are_written_if_the_table_has_them(driver, caplog) -> None:
    driver.database.execute(
        "CREATE TABLE t (id Int64, v String, w Nullable(String), is_deleted UInt8) ENGINE MergeTree ORDER BY id"
    )
    more = batch(("i", 2, "b", "c", "d"), names=("id", "v", "w", "x"))
    with caplog.at_level(logging.WARNING):
        driver.write(batch(("i", 1, "a")), more, batch(("i", 3, "e")))
    assert driver.rows("id, v, w", final=False) == [(1, "a", None), (2, "b", "c"), (3, "e", None)]
    assert "has no column for them: 'x'" in caplog.text


# ── types that users choose ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("option", ["schema_override", "schema_overrides"])
@pytest.mark.parametrize(
    ("override", "codec"), [("DateTime64(3)", ""), ("DateTime64(3) CODEC(Delta, ZSTD(1))", "CODEC(Delta(8), ZSTD(1))")]
)
def test_an_override_determines_type_and_codec_of_a_new_column(driver, option, override, codec) -> None:
    rows = batch(("i", 1, 1709209815123), names=("id", "ts"), types=[pa.int64()] * 2)
    driver.write(rows, **{option: {"ts": override}})
    assert driver.rows("id, toTypeName(ts), toString(ts, 'UTC')") == [(1, "DateTime64(3)", "2024-02-29 12:30:15.123")]
    where = f"database = '{driver.database.name}' AND name = 'ts'"
    assert driver.database.rows(f"SELECT compression_codec FROM system.columns WHERE {where}") == [(codec,)]


def test_an_override_of_a_column_that_exists_is_a_warning(driver, caplog) -> None:
    driver.write(batch(("i", 1, "a")))
    with caplog.at_level(logging.WARNING):
        driver.write(batch(("i", 2, "b")), schema_override={"v": "LowCardinality(String)"})
    assert driver.rows() == [(1, "a"), (2, "b")]
    assert "has type Nullable(String); `schema_override` only applies when the sink creates the table" in caplog.text


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"schema_override": {"w": "String"}}, "`schema_override` names the column 'w', which is not one of (id, v)"),
        (
            {"schema_override": {"v": "Int64"}},
            "has the type Int64 for the column 'v', which cannot hold values of type",
        ),
        ({"version_column_name": "w"}, "`version_column_name` names the column 'w', which is not one of (id, v)"),
        ({"version_column_name": "v"}, "names the column 'v' of type String, which ClickHouse cannot use as a version"),
        ({"key": ("w",)}, "`primary_key` names the column 'w', which is not one of (id, v)"),
        ({"compression_level": 23}, "`compression_level` is 23; it must be between 1 and 22 for zstd"),
    ],
)
def test_options_that_do_not_fit_the_input_are_errors_before_anything_is_written(driver, options, complaint) -> None:
    with pytest.raises(StreamlingError) as caught:
        driver.sink(batch(("i", 1, "a")).schema, **options)
    assert complaint in str(caught.value)
    assert not caught.value.internal


def test_an_input_column_named_like_the_insert_time_is_an_error(driver) -> None:
    names = ("id", "insert_time")
    with pytest.raises(StreamlingError, match="the input has a column 'insert_time'") as caught:
        driver.sink(batch(("i", 1, "a"), names=names).schema)
    assert "version_column_name: insert_time" in str(caught.value.remedy)
    driver.write(batch(("i", 1, 5), names=names, types=[pa.int64()] * 2), version_column_name="insert_time")
    assert driver.rows("id, insert_time") == [(1, 5)]


def test_the_operation_and_not_a_column_of_the_input_says_what_is_deleted(driver, caplog) -> None:
    rows = batch(("i", 1, 1), ("d", 2, 0), names=("id", "is_deleted"), types=[pa.int64()] * 2)
    with caplog.at_level(logging.WARNING):
        driver.write(rows)
    assert driver.rows("id") == [(1,)]
    assert "because the operation determines them: 'is_deleted'" in caplog.text


# ── compression ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("codec", "levels"), [("none", [None]), ("gzip", [None, 0, 9]), ("zstd", [None, 1, 22]), ("lz4", [None, 1, 12])]
)
def test_requests_are_compressed_as_the_node_says(driver, codec, levels) -> None:
    rows = batch(*(("i", n, f"value {n % 100}") for n in range(5000)))
    sizes = []
    for level in levels:
        with driver.opened(rows.schema, compression=codec, compression_level=level) as sink:
            sink.write(rows)
            sizes.append(sink.writer.encode(rows).body.size)
    assert driver.rows("count(), uniqExact(id), max(v)") == [(5000, 5000, "value 99")]
    assert codec == "none" or sizes[2] < sizes[1]


# ── keys, versions, deletes ─────────────────────────────────────────────────────────────────────────────────


@MODES
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("i", 1, "a"), ("u", 1, "b")], [(1, "b")]),
        ([("i", 1, "a"), ("d", 1, "a")], []),
        ([("d", 1, "a")], []),
        ([("u", 1, "a")], [(1, "a")]),
        ([("i", 1, "a"), ("d", 1, "a"), ("i", 1, "b")], [(1, "b")]),
        ([("i", 1, f"v{n}") for n in range(10)], [(1, "v9")]),
        ([("i", 1, "a"), ("i", 2, "b"), ("d", 2, None), ("u", 1, "c"), ("i", 3, "d")], [(1, "c"), (3, "d")]),
    ],
)
@pytest.mark.parametrize("size", [1, 100], ids=["one batch per row", "one batch"])
def test_the_last_operation_of_a_key_wins(driver, append_only_mode, changes, expected, size) -> None:
    batches = [batch(*changes[at : at + size]) for at in range(0, len(changes), size)]
    driver.write(*batches, append_only_mode=append_only_mode)
    assert driver.rows() == expected


@MODES
@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("versioned", [True, False], ids=["versions", "no versions"])
def test_random_changes_have_the_result_of_rows_written_one_at_a_time(
    driver, append_only_mode, deduplicate, versioned
) -> None:
    names, types = ("k", "id", "v", "at"), [pa.string(), pa.int64(), pa.string(), pa.int64()]
    more = {"version_column_name": "at"} if versioned else {}
    for seed in range(5):
        chance = random.Random(seed)
        changes = [(chance.choice("iud"), chance.choice("ab"), chance.randrange(4), f"{n}", n) for n in range(100)]
        batches = [batch(*rows, names=names, types=types) for rows in _in_batches(changes, chance)]
        driver.write(*batches, key=("k", "id"), append_only_mode=append_only_mode, deduplicate=deduplicate, **more)
        assert driver.rows("k, id, v") == _outcome(changes), f"seed {seed}"
        driver.database.execute("TRUNCATE TABLE t")


def _in_batches(changes: Sequence[Row], chance: random.Random) -> list[list[Row]]:
    batches, at = [], 0
    while at < len(changes):
        size = chance.randint(1, 30)
        batches.append(list(changes[at : at + size]))
        at += size
    return batches


def _outcome(changes: Sequence[Row]) -> list[Row]:
    table: dict[tuple[Any, ...], Any] = {}
    for operation, *key, value, _ in changes:
        if operation == "d":
            table.pop(tuple(key), None)
        else:
            table[tuple(key)] = value
    return sorted((*key, value) for key, value in table.items())


def test_the_highest_version_wins_in_a_batch_and_across_batches(driver) -> None:
    names, types = ("id", "v", "n"), [pa.int64(), pa.string(), pa.int64()]
    first = batch(("i", 1, "new", 5), ("i", 1, "old", 3), ("i", 2, "a", 1), names=names, types=types)
    second = batch(("d", 1, "late", 4), ("d", 2, "", 1), names=names, types=types)
    driver.write(first, second, version_column_name="n")
    assert driver.rows("id, v, n") == [(1, "new", 5)]


def test_the_highest_version_wins_in_a_batch_for_a_table_that_does_not_compare_them(driver) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, n Int64, is_deleted UInt8) ENGINE MergeTree ORDER BY id")
    rows = batch(("i", 1, 5), ("i", 1, 3), names=("id", "n"), types=[pa.int64()] * 2)
    driver.write(rows, version_column_name="n")
    assert driver.rows("id, n", final=False) == [(1, 5)]


@pytest.mark.parametrize("engine", ["MergeTree", "ReplacingMergeTree"])
@pytest.mark.parametrize("deduplicate", [True, False])
def test_only_the_last_row_of_a_key_is_written_unless_all_are_wanted(driver, engine, deduplicate) -> None:
    driver.database.execute(f"CREATE TABLE t (id Int64, v String, is_deleted UInt8) ENGINE {engine} ORDER BY id")
    driver.write(batch(("i", 1, "a"), ("i", 2, "b"), ("u", 1, "c")), deduplicate=deduplicate)
    expected = [(1, "c"), (2, "b")] if deduplicate else [(1, "a"), (1, "c"), (2, "b")]
    assert driver.rows(final=False) == expected


def test_a_delete_needs_only_the_key(driver) -> None:
    """The message key of a tombstone has the key columns; all others are NULL."""
    driver.database.execute(
        "CREATE TABLE t (id Int64, v String, l Array(Int64), is_deleted UInt8, at DateTime DEFAULT now())"
        " ENGINE ReplacingMergeTree(at, is_deleted) ORDER BY id"
    )
    names, types = ("id", "v", "l"), [pa.int64(), pa.string(), pa.list_(pa.int64())]
    driver.write(
        batch(("i", 1, "a", [1]), ("i", 2, "b", [2]), names=names, types=types),
        batch(("d", 1, None, None), ("i", 3, "c", [3]), names=names, types=types),
    )
    assert driver.rows("id, v, l") == [(2, "b", [2]), (3, "c", [3])]


@MODES
def test_a_key_that_is_null_is_an_error(driver, append_only_mode) -> None:
    with pytest.raises(BadRow, match=r"column 'id' of table .* has type Int64, and a value is NULL"):
        driver.write(batch(("i", 1, "a"), ("d", None, "b")), append_only_mode=append_only_mode)


def test_a_version_that_is_null_is_an_error_even_in_a_delete(driver) -> None:
    rows = batch(("d", 1, None), names=("id", "n"), types=[pa.int64()] * 2)
    with pytest.raises(BadRow, match=r"column 'n' of table .* has type Int64, and a value is NULL"):
        driver.write(rows, version_column_name="n")


def test_a_delete_into_a_table_without_a_column_for_it_is_an_error(driver) -> None:
    driver.database.execute("CREATE TABLE t (id Int64, v String) ENGINE MergeTree ORDER BY id")
    driver.write(batch(("i", 1, "a")))
    with pytest.raises(BadRow, match="has no column 'is_deleted', so deletes cannot be written"):
        driver.write(batch(("d", 1, "a")))


def test_more_rows_are_deleted_than_one_statement_names(driver) -> None:
    count = 2500
    driver.write(
        batch(*(("i", n, "x" * 300) for n in range(count))),
        batch(*(("d", n, None) for n in range(0, count, 2))),
        append_only_mode=False,
    )
    assert driver.rows("count(), sum(id % 2)") == [(count // 2, count // 2)]


_KEYS: dict[str, pa.Array] = {
    "Int8": pa.array([-5, 7], pa.int64()),
    "UInt64": pa.array([2**64 - 1, 0], pa.uint64()),
    "Int256": pa.array([-1, 5]),
    "UInt128": pa.array([2**63, 5], pa.uint64()),
    "Bool": pa.array([True, False]),
    "Float64": pa.array([0.1, 1e300]),
    "Float32": pa.array([0.1, 2.5], pa.float32()),
    "Decimal(30, 10)": pa.array([Decimal("0.0000000001"), Decimal("-5.5")], pa.decimal128(30, 10)),
    "String": pa.array(["it's\\n", "ü\0x"]),
    "LowCardinality(String)": pa.array(["", " "]),
    "FixedString(4)": pa.array([b"\xff\0\1\2", b"abcd"]),
    "Date": pa.array([0, 365], pa.int32()).cast(pa.date32()),
    "Date32": pa.array([-365, 365], pa.int32()).cast(pa.date32()),
    "DateTime('Asia/Tokyo')": pa.array([0, 1700000000], pa.int64()).cast(pa.timestamp("s")),
    "DateTime64(6, 'Asia/Tokyo')": pa.array([-1, 1700000000_000001], pa.int64()).cast(pa.timestamp("us")),
    "DateTime64(3)": pa.array([1700000000_001, 5]),
    "UUID": pa.array([bytes(range(16)), bytes(16)]),
    "IPv4": pa.array(["1.2.3.4", "255.0.0.1"]),
    "IPv6": pa.array([bytes(range(16)), bytes(16)], pa.binary(16)),
    "Enum8('it\\'s' = 1, 'b' = 2)": pa.array(["it's", "b"]),
}


@pytest.mark.parametrize("type_", _KEYS)
def test_rows_are_deleted_by_keys_of_every_type(driver, type_) -> None:
    driver.database.execute(f"CREATE TABLE t (id {type_}, v String) ENGINE ReplacingMergeTree ORDER BY id")
    values = _KEYS[type_]
    types = [values.type, pa.string()]
    first, second = values.to_pylist()
    driver.write(
        batch(("i", first, "a"), ("i", second, "b"), types=types),
        batch(("d", first, None), types=types),
        append_only_mode=False,
    )
    assert driver.rows("v") == [("b",)]


def test_a_key_of_a_nested_type_cannot_be_deleted_by(driver) -> None:
    driver.database.execute("CREATE TABLE t (id Array(Int64), v String) ENGINE ReplacingMergeTree ORDER BY id")
    rows = batch(("i", [1], "a"), types=[pa.list_(pa.int64()), pa.string()])
    with pytest.raises(StreamlingError, match=r"the key column 'id' has type Array.*, and rows cannot be deleted by"):
        driver.write(rows, append_only_mode=False)
