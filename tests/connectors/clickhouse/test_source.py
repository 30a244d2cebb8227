"""Reading tables: what arrives, in which order, and where a restart continues."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.clickhouse.read_statements import ReadStatements
from streamling.errors import StreamlingError
from tests.connectors.clickhouse.driver import Database
from tests.connectors.clickhouse.source_driver import STATE_KEY, SourceDriver

pytestmark = pytest.mark.services


@pytest.fixture
def driver(database: Database) -> SourceDriver:
    return SourceDriver(database)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def create(driver: SourceDriver, columns: str, order: str, *, engine: str = "MergeTree", values: str = "") -> None:
    driver.database.execute(f"CREATE TABLE t ({columns}) ENGINE = {engine} ORDER BY {order}")
    if values:
        driver.database.execute(f"INSERT INTO t {values}")


# ── pages ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_at_the_boundaries_of_ranges_are_read_once(driver: SourceDriver) -> None:
    create(driver, "id UInt64, v String", "id", values="SELECT number, toString(number) FROM numbers(220)")
    rows = driver.read(config={"sort_key_range": 100, "page_size": 7})
    assert rows == [{"id": n, "v": str(n)} for n in range(220)]


def test_a_key_that_is_not_an_integer_is_read_in_order(driver: SourceDriver) -> None:
    create(driver, "k String, id Int32", "k", values="SELECT hex(number * 7919 % 251), number FROM numbers(120)")
    rows = driver.read(config={"page_size": 7})
    assert [row["k"] for row in rows] == sorted(row["k"] for row in rows)
    assert sorted(ids(rows)) == list(range(120))


def test_pages_have_at_most_page_size_rows(driver: SourceDriver) -> None:
    create(driver, "id Int64", "id", values="SELECT number - 250 FROM numbers(500)")
    pages = driver.pages(config={"page_size": 30, "sort_key_range": 1000})
    assert sum(pages) == 500
    assert max(pages) <= 30


def test_a_dense_part_of_the_key_gets_narrow_ranges(driver: SourceDriver) -> None:
    create(driver, "id UInt32, n UInt32", "(id, n)")
    driver.database.execute(
        "INSERT INTO t SELECT number * 10, 0 FROM numbers(80)",
        "INSERT INTO t SELECT 40 + number % 10, number + 1 FROM numbers(50)",
    )
    pages = driver.pages(config={"page_size": 20, "sort_key_range": 1000})
    assert sum(pages) == 130
    assert max(pages) <= 20


def test_sparse_keys_are_joined_to_few_pages(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT cityHash64(number) FROM numbers(1000)")
    assert len(driver.pages(config={"page_size": 100, "sort_key_range": 100})) < 50


@pytest.mark.parametrize(("sort_key_range", "width"), [(1600, 100), (3200, 200)])
def test_the_first_query_counts_as_many_keys_as_sort_key_range_says(
    driver: SourceDriver, monkeypatch: pytest.MonkeyPatch, sort_key_range: int, width: int
) -> None:
    widths: list[int] = []
    statement = ReadStatements.buckets
    monkeypatch.setattr(
        ReadStatements, "buckets", lambda self, start, width: widths.append(width) or statement(self, start, width)
    )
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(10)")
    driver.read(config={"sort_key_range": sort_key_range})
    assert widths[0] == width


@pytest.mark.parametrize("type_", ["Int8", "UInt8", "Int64", "UInt64", "Int128", "UInt256", "Int256"])
def test_the_extremes_of_an_integer_key_are_read(driver: SourceDriver, type_: str) -> None:
    bits = int(type_.lstrip("UInt"))
    low, high = (0, 2**bits - 1) if type_.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    numbers = [low, low + 1, (low + high) // 2, high - 1, high]
    create(driver, f"id {type_}, n Int8", "(id, n)")
    driver.database.execute("INSERT INTO t VALUES " + ", ".join(f"('{n}', {i})" for i, n in enumerate(numbers)))
    rows = driver.read(config={"page_size": 1}, columns="n")
    assert [row["n"] for row in rows] == [0, 1, 2, 3, 4]
    assert driver.state.get(STATE_KEY)["args"] == [high + 1]
    assert driver.read() == []


def test_rows_that_share_their_whole_key_stay_together(driver: SourceDriver) -> None:
    """A cut inside of them would lose or repeat rows."""
    create(driver, "a Int32, b String, n Int32", "(a, b)", values="SELECT 1, 'x', number FROM numbers(100)")
    driver.database.execute("INSERT INTO t VALUES (1, 'a', 100), (1, 'z', 101), (2, 'a', 102)")
    rows = driver.read(config={"page_size": 10})
    assert sorted(row["n"] for row in rows) == list(range(103))


def test_a_hot_first_key_is_read_in_pages_without_stale_rows(driver: SourceDriver) -> None:
    create(
        driver,
        "id UInt64, name String, v UInt32, is_deleted UInt8, x Int32",
        "(id, name)",
        engine="ReplacingMergeTree(v, is_deleted)",
    )
    driver.database.execute(
        "SYSTEM STOP MERGES t",
        "INSERT INTO t SELECT 7, toString(number), 1, 0, 1 FROM numbers(150)",
        "INSERT INTO t SELECT 7, toString(number), 2, 0, 2 FROM numbers(100)",
        "INSERT INTO t SELECT 7, toString(number), 3, 1, 3 FROM numbers(100, 50)",
        "INSERT INTO t VALUES (8, 'last', 1, 0, 2)",
    )
    with driver.running(config={"page_size": 20}) as run:
        tables = list(run.tables())
    rows = [row for table in tables for row in table.to_pylist()]
    assert len(rows) == 101
    assert {row["x"] for row in rows} == {2}
    assert max(table.num_rows for table in tables) <= 20


# ── positions ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_restart_inside_of_a_hot_key_continues_after_the_tuple(driver: SourceDriver) -> None:
    create(
        driver,
        "id UInt64, name String",
        "(id, name)",
        values="SELECT 7, leftPad(toString(number), 3, '0') FROM numbers(100)",
    )
    with driver.running(config={"page_size": 10}) as run:
        first = run.step()
        driver.state.store(run.position)
    assert first is not None
    stored = driver.state.get(STATE_KEY)
    assert stored == {"sorting_keys": ["id", "name"], "args": [7, first.column("name")[-1].as_py()]}
    rest = driver.read()
    assert [row["name"] for row in rest] == [f"{n:03}" for n in range(first.num_rows, 100)]


def test_rows_with_the_same_only_key_are_read_once(driver: SourceDriver) -> None:
    create(driver, "id UInt64, n Int32", "id", values="SELECT intDiv(number, 50), number FROM numbers(150)")
    found = []
    for _ in range(3):
        with driver.running(config={"page_size": 20}) as run:
            table = run.step()
            assert table is not None
            found += table.column("n").to_pylist()
            driver.state.store(run.position)
    assert sorted(found) == list(range(150))
    assert driver.read() == []


def test_positions_advance_over_sparse_ranges(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT number * 1000000000 FROM numbers(10)")
    with driver.running(config={"page_size": 1}) as run:
        positions = [run.position[STATE_KEY]["args"] for _ in run.tables()]
    assert positions == [[n * 1000000000 + 1] for n in range(10)]


def test_a_position_of_the_original_is_understood(driver: SourceDriver) -> None:
    create(
        driver,
        "id UInt64, name String",
        "(id, name)",
        values="SELECT intDiv(number, 2), toString(number) FROM numbers(20)",
    )
    driver.state.put(STATE_KEY, {"sorting_keys": ["id", "name"], "args": [8]})
    assert [row["name"] for row in driver.read()] == ["16", "17", "18", "19"]
    driver.state.put(STATE_KEY, {"sorting_keys": ["id", "name"], "args": ["8", "16"]})
    assert [row["name"] for row in driver.read()] == ["17", "18", "19"]


def test_a_finished_table_is_not_read_again_but_later_rows_are(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(10)")
    assert len(driver.read()) == 10
    with driver.running() as run:
        restored = run.position
        assert run.step() is None
        assert run.position is restored  # the engine then reports that there is nothing new
    driver.database.execute("INSERT INTO t SELECT number FROM numbers(10, 5)")
    assert ids(driver.read()) == [10, 11, 12, 13, 14]


def test_an_empty_table_ends_at_once(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id")
    assert driver.read() == []
    assert driver.state.get(STATE_KEY) is None


def test_a_position_of_another_sorting_key_is_refused(driver: SourceDriver) -> None:
    create(driver, "id UInt64, name String", "(id, name)", values="VALUES (1, 'a')")
    driver.state.put(STATE_KEY, {"sorting_keys": ["name"], "args": ["a"]})
    with pytest.raises(
        StreamlingError, match=r"does not fit the sorting key \(id, name\).*belongs to.*\(name\)"
    ) as error:
        driver.read()
    assert "state reset" in (error.value.remedy or "")


@pytest.mark.parametrize("args", [[], ["x"], [1, 2, 3], [[1]], [1, 5], None, [True], [1, {"hex": "'"}]])
def test_a_damaged_position_is_refused(driver: SourceDriver, args: Any) -> None:
    create(driver, "id UInt64, name String", "(id, name)", values="VALUES (1, 'a')")
    driver.state.put(STATE_KEY, {"sorting_keys": ["id", "name"], "args": args})
    with pytest.raises(StreamlingError, match="the stored position does not fit"):
        driver.read()


# ── start_at ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_start_at_is_the_first_value_of_the_first_key(driver: SourceDriver) -> None:
    create(driver, "id UInt64, name String", "(id, name)", values="SELECT number, 'x' FROM numbers(10)")
    assert ids(driver.read(start_at=5)) == [5, 6, 7, 8, 9]


def test_a_restart_with_start_at_continues_at_the_stored_position(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(10)")
    with driver.running(start_at=5, config={"page_size": 2}) as run:
        run.step()
        driver.state.store(run.position)
    assert ids(driver.read(start_at=5)) == [7, 8, 9]


@pytest.mark.parametrize("start_at", [{"start_at": 3}, {}])
def test_a_new_start_at_takes_precedence_over_the_stored_position(
    driver: SourceDriver, start_at: dict[str, Any]
) -> None:
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(10)")
    driver.read(start_at=8)
    driver.database.execute("INSERT INTO t VALUES (10)")
    assert ids(driver.read(**start_at)) == (list(range(3, 11)) if start_at else [10])


def test_only_the_first_value_of_start_at_counts(driver: SourceDriver) -> None:
    create(driver, "id UInt64, name String", "(id, name)", values="SELECT number, 'x' FROM numbers(10)")
    assert ids(driver.read(start_at="8, zzz")) == [8, 9]


@pytest.mark.parametrize(
    ("type_", "value", "start_at", "expected"),
    [
        ("String", "toString(number)", "7", 3),
        ("Date", "toDate('2024-01-01') + number", "2024-01-08", 3),
        ("DateTime('Asia/Tokyo')", "toDateTime('2024-01-01 00:00:00', 'UTC') + number", "2024-01-01 00:00:07", 3),
        ("DateTime64(3)", "toDateTime64('2024-01-01 00:00:00', 3, 'UTC') + number", "2024-01-01T00:00:07Z", 3),
        ("Decimal(10, 2)", "number", "7.00", 3),
        ("Float64", "number", "6.5", 3),
        ("Enum8('a' = 1, 'b' = 2)", "if(number < 7, 'a', 'b')", "b", 3),
        ("Nullable(Int32)", "if(number = 0, NULL, number)", "8", 3),
    ],
)
def test_start_at_of_other_types(driver: SourceDriver, type_: str, value: str, start_at: str, expected: int) -> None:
    driver.database.execute(
        f"CREATE TABLE t (k {type_}, n Int32) ENGINE = MergeTree ORDER BY k SETTINGS allow_nullable_key = 1",
        f"INSERT INTO t SELECT {value}, number FROM numbers(10)",
    )
    assert len(driver.read(start_at=start_at)) == expected


def test_a_start_at_of_the_wrong_type_is_refused(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id")
    with pytest.raises(StreamlingError, match="start_at is 'soon', which is not a value of the first sorting key id"):
        driver.source(start_at="soon").schema()


# ── versions and deletes ──────────────────────────────────────────────────────────────────────────────────────


def create_replacing(driver: SourceDriver, arguments: str = "v, d", *, engine: str = "ReplacingMergeTree") -> None:
    create(driver, "id UInt64, x Int32, v UInt32, d UInt8", "id", engine=f"{engine}({arguments})")
    driver.database.execute("SYSTEM STOP MERGES t")


def test_the_version_counts_although_it_is_not_selected(driver: SourceDriver) -> None:
    create_replacing(driver)
    driver.database.execute(
        "INSERT INTO t SELECT number, 2, 2, 0 FROM numbers(5)",
        "INSERT INTO t SELECT number, 1, 1, 0 FROM numbers(5)",
        "INSERT INTO t VALUES (4, 3, 3, 1)",
    )
    assert driver.read(columns="id, x") == [{"id": n, "x": 2} for n in range(4)]


def test_a_tie_shows_what_final_shows(driver: SourceDriver) -> None:
    """A key that was deleted and inserted again within the resolution of the version."""
    create_replacing(driver)
    driver.database.execute(
        "INSERT INTO t VALUES (1, 1, 5, 1), (2, 1, 5, 0)", "INSERT INTO t VALUES (1, 2, 5, 0), (2, 2, 5, 1)"
    )
    assert driver.read(columns="id, x") == [{"id": 1, "x": 2}]


@pytest.mark.parametrize("type_", ["Nullable(Int32)", "LowCardinality(Nullable(String))", "Nullable(Float64)"])
def test_a_tie_of_null_shows_what_final_shows(driver: SourceDriver, type_: str) -> None:
    driver.database.execute(
        f"CREATE TABLE t (k {type_}, n Int8, v UInt8, d UInt8) ENGINE = ReplacingMergeTree(v, d) ORDER BY (k, n)"
        " SETTINGS allow_nullable_key = 1",
        "SYSTEM STOP MERGES t",
        "INSERT INTO t VALUES (NULL, 1, 5, 1), (1, 1, 5, 0), (1, 2, 5, 0)",
        "INSERT INTO t VALUES (NULL, 1, 5, 0), (1, 1, 5, 1), (NULL, 2, 5, 0)",
    )
    assert driver.read(columns="n") == [{"n": 2}, {"n": 1}, {"n": 2}]


def test_a_tie_between_partitions_shows_what_final_shows(driver: SourceDriver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id UInt64, x Int32, v UInt8, d UInt8) ENGINE = ReplacingMergeTree(v, d) ORDER BY id"
        " PARTITION BY x",
        "INSERT INTO t VALUES (1, 2, 5, 0), (2, 2, 5, 1)",
        "INSERT INTO t VALUES (1, 1, 5, 1), (2, 1, 5, 0)",
    )
    assert driver.read(columns="id, x") == [
        {"id": id_, "x": x} for id_, x in driver.database.rows("SELECT id, x FROM t FINAL")
    ]


def test_a_key_that_was_inserted_again_after_a_delete_is_read(driver: SourceDriver) -> None:
    create_replacing(driver)
    driver.database.execute(
        "INSERT INTO t VALUES (1, 1, 1, 0)", "INSERT INTO t VALUES (1, 2, 2, 1)", "INSERT INTO t VALUES (1, 3, 3, 0)"
    )
    assert driver.read(columns="x") == [{"x": 3}]


@pytest.mark.parametrize("arguments", ["v", ""])
def test_of_rows_without_a_version_the_last_one_is_read(driver: SourceDriver, arguments: str) -> None:
    create_replacing(driver, arguments)
    driver.database.execute("INSERT INTO t VALUES (1, 1, 1, 0)", "INSERT INTO t VALUES (1, 2, 1, 1)")
    assert driver.read() == [{"id": 1, "x": 2, "v": 1, "d": 1}]


def test_tables_of_other_merging_engines_are_read_merged(driver: SourceDriver) -> None:
    create(driver, "id UInt64, n UInt64", "id", engine="SummingMergeTree")
    driver.database.execute("SYSTEM STOP MERGES t", "INSERT INTO t VALUES (1, 2)", "INSERT INTO t VALUES (1, 3)")
    assert driver.read() == [{"id": 1, "n": 5}]


def test_an_operation_of_the_table_is_kept(driver: SourceDriver) -> None:
    create(driver, "id UInt64, _gs_op LowCardinality(String)", "id", values="VALUES (1, 'i'), (2, 'd')")
    assert driver.read(columns="id") == [{"id": 1, "_gs_op": "i"}, {"id": 2, "_gs_op": "d"}]


# ── filters ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_filter_drops_rows(driver: SourceDriver) -> None:
    create(driver, "id UInt64, x Int32", "id", values="SELECT number, number % 3 FROM numbers(9)")
    assert ids(driver.read(filter="x = 1 OR id = 0 -- the first", columns="id")) == [0, 1, 4, 7]


def test_a_filter_does_not_bring_stale_rows_back(driver: SourceDriver) -> None:
    driver.database.execute(
        "CREATE TABLE t (id UInt64, x Int32, v UInt32, day Date) ENGINE = ReplacingMergeTree(v) ORDER BY id"
        " PARTITION BY toYYYYMM(day)",
        "SYSTEM STOP MERGES t",
        "INSERT INTO t VALUES (1, 1, 1, '2024-02-01'), (2, 1, 1, '2024-02-01')",
        "INSERT INTO t VALUES (1, 2, 2, '2024-01-01')",
    )
    assert ids(driver.read(filter="x = 1")) == [2]
    driver.state.remove(STATE_KEY)
    assert ids(driver.read(filter="day >= '2024-02-01'")) == [2]


def test_a_filter_on_the_key_is_applied(driver: SourceDriver) -> None:
    create_replacing(driver)
    driver.database.execute("INSERT INTO t SELECT number, 1, 1, 0 FROM numbers(10)")
    assert ids(driver.read(filter="id BETWEEN 3 AND 5")) == [3, 4, 5]


@pytest.mark.parametrize(
    ("filter", "reason"),
    [
        ("y = 1", "Unknown expression"),
        ("x =", "Syntax error"),
        ("name", "Invalid type for filter"),
        ("1) OR (1", "closes nothing"),
        ("x = 1 /* open", "not closed"),
        ("'open", "not closed"),
        ("x = 1; DROP TABLE t", "semicolon"),
        ("-- nothing", "empty"),
    ],
)
def test_an_invalid_filter_is_refused_before_data_flows(driver: SourceDriver, filter: str, reason: str) -> None:
    create(driver, "id UInt64, x Int32, name String", "id")
    with pytest.raises(StreamlingError, match=reason) as error:
        driver.source(filter=filter).schema()
    assert error.value.option_location is not None
    assert error.value.option_location.field == "filter"
    assert not error.value.internal


# ── columns and keys ──────────────────────────────────────────────────────────────────────────────────────────


def test_columns_are_read_in_the_given_order(driver: SourceDriver) -> None:
    create(driver, "id UInt64, a Int8, b Int8", "id", values="VALUES (1, 2, 3)")
    assert [list(row.items()) for row in driver.read(columns=" b , id ")] == [[("b", 3), ("id", 1)]]


def test_computed_columns_are_read_only_if_they_are_named(driver: SourceDriver) -> None:
    create(driver, "id UInt64, twice UInt64 ALIAS id * 2, half UInt64 MATERIALIZED intDiv(id, 2)", "id")
    driver.database.execute("INSERT INTO t (id) VALUES (4)")
    assert driver.read() == [{"id": 4}]
    driver.state.remove(STATE_KEY)
    assert driver.read(columns="twice, half") == [{"twice": 8, "half": 2}]


def test_an_unknown_column_is_refused(driver: SourceDriver) -> None:
    create(driver, "id UInt64, amount Int8", "id")
    with pytest.raises(StreamlingError, match=r"the table .*\.t has no column 'amuont'") as error:
        driver.source(columns="id, amuont").schema()
    assert error.value.remedy == "did you mean 'amount'?"


def test_names_of_columns_may_be_anything(driver: SourceDriver) -> None:
    create(driver, "`a``b` UInt64, `c d.e` String, `__row` Int8", "`a``b`", values="VALUES (1, 'x', 2)")
    assert driver.read(filter="`__row` = 2") == [{"a`b": 1, "c d.e": "x", "__row": 2}]


def test_a_table_of_another_database_is_read(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="VALUES (1)")
    table_name = f"{driver.database.name}.t"
    assert ids(driver.read(table_name, config={"database": "default"})) == [1]


@pytest.mark.parametrize(
    ("order", "columns", "expected"),
    [
        ("(b, a)", None, ("a", "b")),
        ("(toDate(t), a)", None, ("a", "t")),
        ("(b, a)", "a", ()),
    ],
)
def test_the_primary_key_is_inferred_from_the_sorting_key(
    driver: SourceDriver, order: str, columns: str | None, expected: tuple[str, ...]
) -> None:
    create(driver, "a Int32, b Int32, t DateTime", order)
    source = driver.source(**({} if columns is None else {"columns": columns}))
    source.schema()
    assert tuple(sorted(source.inferred_primary_key())) == expected


def test_the_progress_is_the_number_of_rows(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(100)")
    with driver.running(config={"page_size": 10}) as run:
        assert run.source.progress() is None
        run.step()
        progress = run.source.progress()
        assert progress is not None
        assert 0 < progress.done < progress.total == 100
        driver.state.store(run.position)
        done = progress.done
    with driver.running(config={"page_size": 10}) as run:
        run.step()
        progress = run.source.progress()
        assert progress is not None
        assert done < progress.done < progress.total == 100
        run.rows()
        progress = run.source.progress()
        assert progress is not None
        assert progress.done == progress.total == 100


def test_no_thread_is_left(driver: SourceDriver) -> None:
    create(driver, "id UInt64", "id", values="SELECT number FROM numbers(1000)")
    with driver.running(config={"page_size": 1}) as run:
        run.step()
        assert any("clickhouse" in thread.name for thread in threading.enumerate())
    assert not any("clickhouse" in thread.name for thread in threading.enumerate())


# ── tables that cannot be read ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("CREATE TABLE t (id Int32) ENGINE = Memory", r"\(engine Memory\) has no sorting key"),
        ("CREATE TABLE t (id Int32) ENGINE = MergeTree ORDER BY tuple()", "has no sorting key"),
        ("CREATE TABLE t (id Array(Int32)) ENGINE = MergeTree ORDER BY id", r"first sorting key .*Array\(Int32\)"),
        (
            "CREATE TABLE t (id Int32, s AggregateFunction(sum, Int32)) ENGINE = AggregatingMergeTree ORDER BY id",
            r"column 's' .* has type AggregateFunction\(sum, Int32\), which cannot be read",
        ),
        ("CREATE TABLE other (id Int32) ENGINE = Memory", r"the table .*\.t does not exist"),
        ("CREATE TABLE t (id Int32, _gs_op UInt8) ENGINE = MergeTree ORDER BY id", "column '_gs_op' .* must be text"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused(driver: SourceDriver, table: str, message: str) -> None:
    driver.database.execute(table)
    with pytest.raises(StreamlingError, match=message) as error:
        driver.source().schema()
    assert not error.value.internal
    assert not error.value.retriable


def test_a_column_that_cannot_be_read_can_be_left_out(driver: SourceDriver) -> None:
    create(driver, "id Int32, s AggregateFunction(sum, Int32)", "id", engine="AggregatingMergeTree")
    driver.database.execute("INSERT INTO t SELECT 1, sumState(toInt32(2))")
    assert driver.read(columns="id") == [{"id": 1}]


def test_bytes_that_are_not_text_are_an_error(driver: SourceDriver) -> None:
    create(driver, "id Int32, s String", "id", values="VALUES (1, unhex('ff'))")
    with pytest.raises(StreamlingError, match=r"column 's' of the table .* not valid UTF-8"):
        driver.read()


def test_keys_that_cannot_be_compared_do_not_matter_behind_others(driver: SourceDriver) -> None:
    create(driver, "id Int32, l Array(Int32)", "(id, l)", values="SELECT intDiv(number, 4), [number] FROM numbers(40)")
    rows = driver.read(config={"page_size": 2})
    assert [row["l"][0] for row in rows] == list(range(40))


def test_rows_have_the_columns_of_the_schema(driver: SourceDriver) -> None:
    create(driver, "id Int32, x Nullable(UInt256)", "id", values="VALUES (1, NULL), (2, '5')")
    with driver.running() as run:
        table = run.step()
        assert table is not None
        assert table.schema == run.source.schema()
        assert table.schema.field("id") == pa.field("id", pa.int32(), nullable=False)
