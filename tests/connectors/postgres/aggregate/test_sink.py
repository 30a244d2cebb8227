from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import BadRow, StreamlingError
from streamling.plugins.rejects import RejectedRows
from streamling.types.wide.layout import U256
from tests.connectors.postgres.aggregate.driver import TYPES, Aggregate, transfers

pytestmark = pytest.mark.services


@pytest.fixture
def place(postgres: LocalPostgres) -> Aggregate:
    return Aggregate(postgres.dsn)


#: every function over one column
ALL = {
    "total": {"from": "amount", "fn": "sum"},
    "n": {"fn": "count"},
    "mean": {"from": "amount", "fn": "avg"},
    "least": {"from": "amount", "fn": "min"},
    "most": {"from": "amount", "fn": "max"},
}


# ── what is counted ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_inserts_add_and_deletes_subtract(place: Aggregate, together: bool) -> None:
    rows = [("i", 1, "alice", 100), ("i", 2, "bob", 50), ("i", 3, "alice", 50), ("i", 4, "bob", 75)]
    rows += [("d", 3, "alice", 50), ("i", 5, "alice", 20), ("i", 6, "bob", 30), ("d", 6, "bob", 30)]
    place.write(*([transfers(*rows)] if together else map(transfers, rows)))

    assert place.totals() == [("alice", 120), ("bob", 125)]
    assert place.landed() == [(1, "i"), (2, "i"), (3, "d"), (3, "i"), (4, "i"), (5, "i"), (6, "d"), (6, "i")]


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_a_row_that_is_delivered_twice_counts_once(place: Aggregate, together: bool, deduplicate: bool) -> None:
    rows = [("i", 1, "alice", 100), ("i", 2, "bob", 50), ("i", 1, "alice", 100), ("i", 2, "bob", 50)] * 2
    place.write(*([transfers(*rows)] if together else map(transfers, rows)), deduplicate=deduplicate)

    assert place.totals() == [("alice", 100), ("bob", 50)]
    assert place.landed() == [(1, "i"), (2, "i")]


@pytest.mark.parametrize("deduplicate", [True, False])
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_the_first_row_of_a_key_and_operation_counts_in_any_batching(
    place: Aggregate, together: bool, deduplicate: bool
) -> None:
    rows = [("i", 1, "alice", 100), ("d", 1, "alice", 100), ("i", 1, "alice", 70), ("i", 2, "alice", 5)]
    place.write(*([transfers(*rows)] if together else map(transfers, rows)), deduplicate=deduplicate)

    assert place.totals() == [("alice", 5)]


@pytest.mark.parametrize(("deduplicate", "amount"), [(True, 100), (False, 70)])
def test_the_landing_table_holds_the_first_row_of_a_batch_or_its_last(
    place: Aggregate, deduplicate: bool, amount: int
) -> None:
    place.write(transfers(("i", 1, "alice", 100), ("i", 1, "alice", 70)), deduplicate=deduplicate)

    assert place.totals() == [("alice", 100)]
    assert place.execute("SELECT amount FROM {log}") == [(amount,)]


def test_all_functions_at_once(place: Aggregate) -> None:
    place.write(
        transfers(("i", 1, "a", 5), ("i", 2, "a", None), ("i", 3, "b", None)),
        transfers(("i", 4, "a", -2), ("i", 5, "a", 9), ("i", 6, "b", None)),
        aggregate=ALL,
    )

    assert place.totals("account, total, n, mean_sum, mean_count, least, most") == [
        ("a", 12, 4, 12, 3, -2, 9),
        ("b", 0, 2, 0, 0, None, None),
    ]


def test_inserts_increase_a_count_deletes_decrease_it_and_updates_keep_it(place: Aggregate) -> None:
    rows = [("i", 1, "a", 1), ("i", 2, "a", None), ("i", 3, "a", 3), ("u", 1, "a", 7), ("d", 3, "a", 3)]
    counts = {"rows": {"fn": "count"}, "values": {"from": "amount", "fn": "count", "type": "integer"}}
    place.write(transfers(*rows, (None, 4, "a", 4), ("x", 5, "a", 5)), aggregate=counts)

    assert place.totals() == [("a", 4, 3)]


def test_an_average_survives_deletes(place: Aggregate) -> None:
    rows = [("i", 1, "a", 10), ("i", 2, "a", 20), ("i", 3, "a", 60), ("d", 3, "a", 60), ("d", 9, "a", None)]
    place.write(transfers(*rows), aggregate={"mean": {"from": "amount", "fn": "avg"}})

    assert place.totals("mean_sum / mean_count") == [(15,)]


def test_a_single_row_without_groups(place: Aggregate) -> None:
    rows = transfers(("i", 1, "a", 1), ("i", 2, "b", 2))
    place.write(rows, rows, transfers(("d", 1, "a", 1)), group_by={}, aggregate={"n": {"fn": "count"}})

    assert place.totals() == [("value", 1)]
    assert place.columns("totals") == {"key": "text not null", "n": "bigint not null default 0"}


def test_an_update_of_a_sum_adds_a_new_value_with_one_warning(
    place: Aggregate, caplog: pytest.LogCaptureFixture
) -> None:
    place.write(transfers(("i", 1, "a", 10), ("u", 1, "a", 15)), transfers(("u", 2, "a", 1)))

    assert place.totals() == [("a", 26)]
    warnings = [record for record in caplog.records if "adds the new value on top of it" in record.message]
    assert [record.levelname for record in warnings] == ["WARNING"]


# ── what cannot be counted ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fn", ["min", "max"])
@pytest.mark.parametrize("operation", ["d", "u"])
def test_min_and_max_reject_updates_and_deletes(place: Aggregate, fn: str, operation: str) -> None:
    aggregate = {"extreme": {"from": "amount", "fn": fn}}
    rows = transfers(("i", 1, "a", 1), (operation, 1, "a", 5))
    with pytest.raises(BadRow, match=rf"`aggregate\.extreme` \({fn}\) cannot subtract values"):
        place.write(rows, aggregate=aggregate)
    assert place.totals() == []

    rejected_rows = RejectedRows("out", ("id",))
    place.write(rows, aggregate=aggregate, rejected_rows=rejected_rows)
    assert place.totals() == [("a", 1)]
    (letters,) = rejected_rows.take()
    assert [letter["position"] for letter in letters.to_pylist()] == ["id=1"]


def test_rows_without_key_or_group_are_rejected_for_one_reason_each(place: Aggregate) -> None:
    rows = transfers(("i", None, None, 1), ("i", 2, None, 2), ("i", 3, "a", 3), ("d", 4, None, 4))
    with pytest.raises(BadRow, match="column 'id' of the primary key is NULL"):
        place.write(rows)
    rejected_rows = RejectedRows("out", ("id",))
    place.write(rows, rejected_rows=rejected_rows)

    assert place.totals() == [("a", 3)]
    letters = [letter for batch in rejected_rows.take() for letter in batch.to_pylist()]
    assert [(letter["position"], letter["error"].split(",")[0]) for letter in letters] == [
        ("id=null", "column 'id' of the primary key is NULL"),
        ("id=2", "column 'account'"),
        ("id=4", "column 'account'"),
    ]


def test_a_sum_that_overflows_its_column_is_an_error_and_changes_nothing(place: Aggregate) -> None:
    types = {"id": pa.int64(), "account": pa.string(), "amount": pa.int32()}
    place.write(transfers(("i", 1, "a", 2**31 - 1), types=types))
    with pytest.raises(BadRow, match=r"trigger function .*log_to_totals_fn: integer out of range") as raised:
        place.write(transfers(("i", 2, "a", 1), types=types))

    assert "type" in (raised.value.remedy or "")
    assert place.totals() == [("a", 2**31 - 1)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"aggregate": {"x": {"from": "amuont", "fn": "sum"}}}, "`aggregate.x` uses the column 'amuont'"),
        ({"aggregate": {"x": {"fn": "sum"}}}, "`aggregate.x` uses the column 'x'"),
        ({"aggregate": {"x": {"from": "nope", "fn": "count"}}}, "`aggregate.x` uses the column 'nope'"),
        ({"group_by": {"nope": {}}}, "`group_by.nope` uses the column 'nope'"),
        (
            {"aggregate": {"account": {"fn": "sum"}}},
            "the sum of 'account', which has type string; sum supports numbers",
        ),
        (
            {"aggregate": {"flag": {"fn": "max"}}},
            "the max of 'flag', which has type bool; max supports numbers, texts, dates",
        ),
        ({"group_by": {"tags": {}}}, "`group_by.tags` groups by 'tags', which has type list"),
        ({"aggregate": {"amount": {"fn": "sum", "type": "text"}}}, "is TEXT, which cannot hold numbers (BIGINT)"),
        ({"group_by": {"account": {"type": "bigint"}}}, "`group_by.account.type` is BIGINT, which cannot hold texts"),
        (
            {"aggregate": {"amount": {"fn": "sum", "type": "numeric(9,2)); DROP TABLE x; --"}}},
            "`aggregate.amount.type`: the PostgreSQL type 'numeric(9,2)); DROP TABLE x; --' is not supported",
        ),
        (
            {"aggregate": {"m": {"fn": "avg", "from": "amount"}, "m_sum": {"fn": "count"}}},
            "two columns 'm_sum'",
        ),
        ({"group_by": {}, "aggregate": {"key": {"fn": "count"}}}, "two columns 'key'"),
        ({"agg_table": "t" * 64}, "the name of table"),
        ({"aggregate": {"n" * 60: {"from": "amount", "fn": "avg"}}}, "has 64 bytes"),
    ],
)
def test_invalid_columns_are_reported_before_connecting_to_postgres(options: dict[str, Any], message: str) -> None:
    schema = pa.schema(
        [
            *[("id", pa.int64()), ("account", pa.string()), ("amount", pa.int64())],
            *[("flag", pa.bool_()), ("tags", pa.list_(pa.string()))],
        ]
    )
    nowhere = Aggregate("postgresql://nobody@127.0.0.1:1/nothing")
    with pytest.raises(StreamlingError) as raised:
        nowhere.sink(schema, **options)
    assert message in str(raised.value)
    assert not raised.value.internal


# ── tables, function, trigger ───────────────────────────────────────────────────────────────────────────────


def test_the_database_objects_are_those_of_the_rust_implementation(place: Aggregate) -> None:
    place.write(transfers(("i", 1, "a", 1)), aggregate=ALL)

    assert place.columns("log") == {
        "id": "bigint not null",
        "account": "text",
        "amount": "bigint",
        "_gs_op": "text not null",
        "_gs_checkpoint_epoch": "bigint not null default 0",
    }
    number = "bigint not null default 0"
    assert place.columns("totals") == {
        "account": "text not null",
        **dict.fromkeys(("total", "n", "mean_sum", "mean_count"), number),
        "least": "bigint",
        "most": "bigint",
    }
    indexes = place.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = %s ORDER BY 1", place.schema)
    columns = {name: definition.rpartition("(")[2].rstrip(")") for name, definition in indexes}
    assert columns == {
        "idx_log_checkpoint_epoch": "_gs_checkpoint_epoch",
        "log_pkey": "id, _gs_op",
        "totals_pkey": "account",
    }
    (trigger,) = place.execute("SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = %s::regclass", place.log)
    assert trigger[0] == (
        f"CREATE TRIGGER log_to_totals_trigger AFTER INSERT ON {place.log} REFERENCING NEW TABLE AS new_table"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {place.schema}.log_to_totals_fn()"
    )


def test_types_can_be_chosen(place: Aggregate) -> None:
    types = {"id": pa.int64(), "account": pa.int32(), "amount": pa.float64(), "at": pa.timestamp("us")}
    options = {
        "group_by": {"who": {"from": "account", "type": "varchar(100)"}},
        "aggregate": {
            "volume": {"from": "amount", "fn": "sum", "type": "numeric(30,5)"},
            "last": {"from": "at", "fn": "max", "type": "timestamptz"},
        },
    }
    place.write(*(transfers(("i", n, 7, 0.1, 1_000_000), types=types) for n in range(3)), **options)

    assert place.columns("totals") == {
        "who": "character varying(100) not null",
        "volume": "numeric(30,5) not null default 0",
        "last": "timestamp with time zone",
    }
    assert place.totals("who, volume, extract(epoch FROM last)::int") == [("7", Decimal("0.30000"), 1)]


def test_sums_of_wide_and_exact_numbers_keep_all_digits(place: Aggregate) -> None:
    half = 2**255 - 1
    types = {"id": pa.int64(), "account": pa.string(), "wei": U256, "cents": pa.decimal128(38, 10)}
    arrays = [
        pa.array([1, 2, 3], pa.int64()),
        pa.array(["a"] * 3),
        pa.ExtensionArray.from_storage(
            U256, pa.array([n.to_bytes(32, "big") for n in (half, half, 7)], U256.storage_type)
        ),
        pa.array([Decimal("1.0000000001"), Decimal("2"), Decimal("0")], pa.decimal128(38, 10)),
        pa.array(["i", "i", "d"]),
    ]
    batch = pa.record_batch(arrays, schema=pa.schema([*types.items(), ("_gs_op", pa.string())]))
    place.write(
        batch, aggregate={"wei": {"fn": "sum"}, "cents": {"fn": "sum"}, "most": {"from": "cents", "fn": "count"}}
    )

    assert place.totals() == [("a", 2 * half - 7, Decimal("3.0000000001"), 1)]


def test_names_of_every_kind(place: Aggregate) -> None:
    types = {'I"d': pa.int64(), "found": pa.string(), "new_table": pa.int64(), "Ünï %s {x}": pa.int64()}
    place.write(
        transfers(("i", 1, "it's", 5, 6), ("d", 2, "it's", 1, 2), types=types),
        key=('I"d',),
        group_by={"found": {}},
        aggregate={"target": {"from": "new_table", "fn": "sum"}, "Ünï %s {x}": {"fn": "sum"}},
    )

    assert place.totals() == [("it's", 4, 4)]


def test_existing_objects_are_used_and_the_trigger_is_recreated(place: Aggregate) -> None:
    place.write(transfers(("i", 1, "a", 1)), aggregate={"n": {"fn": "count"}})
    place.execute("ALTER TABLE {totals} ADD COLUMN doubled BIGINT NOT NULL DEFAULT 0, ADD COLUMN note TEXT")
    two = {"n": {"fn": "count"}, "doubled": {"from": "amount", "fn": "sum"}}
    place.write(transfers(("i", 2, "a", 5)), aggregate=two)

    assert place.totals("account, n, doubled, note") == [("a", 2, 5, None)]
    with pytest.raises(StreamlingError, match=r"totals has no column 'mean_sum', 'mean_count'"):
        place.write(transfers(("i", 3, "a", 5)), aggregate={**two, "mean": {"from": "amount", "fn": "avg"}})
    place.execute("ALTER TABLE {totals} ADD COLUMN id BIGINT")
    with pytest.raises(
        StreamlingError, match=r"totals has no primary key or unique index on \(id\), the columns of `gr"
    ):
        place.write(transfers(("i", 3, "a", 5)), group_by={"id": {}}, aggregate=two)


def test_a_column_that_appears_while_the_sink_runs_is_missing_in_the_landing_table(place: Aggregate) -> None:
    wider = transfers(("i", 2, "a", 5, "x"), types={**TYPES, "note": pa.string()})
    with place.opened() as running:
        running.write(transfers(("i", 1, "a", 1)))
        with pytest.raises(StreamlingError, match=r"log has no column 'note' \(TEXT\)") as raised:
            running.write(wider)
    assert "evolve" not in (raised.value.remedy or "")
