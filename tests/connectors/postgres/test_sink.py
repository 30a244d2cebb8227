from __future__ import annotations

import random

import pyarrow as pa
import pytest

from streamling.dev.services.postgres import LocalPostgres
from streamling.errors import StreamlingError
from tests.connectors.postgres.driver import Driver
from tests.connectors.sink_driver import batch
from tests.harness.pipelines import eventually

pytestmark = pytest.mark.services


@pytest.fixture
def pg(postgres: LocalPostgres) -> Driver:
    return Driver(postgres.dsn)


# ── keys, updates, deletes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        pytest.param([("i", 1, "a"), ("u", 1, "b")], [(1, "b")], id="insert, update"),
        pytest.param([("i", 1, "a"), ("d", 1, "a")], [], id="insert, delete"),
        pytest.param([("i", 1, "a"), ("d", 9, None)], [(1, "a")], id="delete of an unknown key"),
        pytest.param([("i", 1, "a"), ("d", 1, None), ("i", 1, "c")], [(1, "c")], id="insert, delete, insert"),
        pytest.param([("u", 1, "a")], [(1, "a")], id="update of an unseen key inserts"),
        pytest.param([("i", 1, str(n)) for n in range(10)], [(1, "9")], id="ten duplicates: last wins"),
        pytest.param(
            [("i", 1, "a"), ("i", 2, "a"), ("u", 1, "b"), ("u", 2, "b"), ("u", 1, "c")],
            [(1, "c"), (2, "b")],
            id="interleaved updates",
        ),
        pytest.param(
            [("i", 1, "a"), ("i", 2, "a"), ("i", 3, "a"), ("i", 4, "a"), ("d", 4, None), ("u", 2, "b"), ("i", 5, "a")],
            [(1, "a"), (2, "b"), (3, "a"), (5, "a")],
            id="mixed batch",
        ),
        pytest.param([(None, 1, "a"), ("x", 2, "b")], [(1, "a"), (2, "b")], id="no or unknown operation inserts"),
    ],
)
def test_the_last_operation_of_each_key_counts(pg: Driver, rows, expected, together: bool) -> None:
    pg.write(*([batch(*rows)] if together else [batch(row) for row in rows]))

    assert pg.rows() == expected


def test_several_batches_of_one_run(pg: Driver) -> None:
    pg.write(*[batch(*[("i", n, f"v{n}") for n in range(first, first + 10)]) for first in range(0, 50, 10)])

    assert pg.rows() == [(n, f"v{n}") for n in range(50)]


def test_a_composite_key(pg: Driver) -> None:
    names, types = ("a", "b", "v"), (pa.int64(), pa.string(), pa.string())
    rows = [("i", 1, "x", "1"), ("i", 1, "y", "2"), ("i", 2, "x", "3"), ("u", 1, "x", "4"), ("d", 1, "y", None)]
    pg.write(batch(*rows, names=names, types=types), key=("a", "b"))

    assert pg.rows() == [(1, "x", "4"), (2, "x", "3")]


@pytest.mark.parametrize(
    "keys",
    [["", " ", "\t", "  "], ["ü", "u\u0308", "日本", "😀"], ["a'b", 'a"b', "a,b", "a\nb", "\\x61", "\\.", "NULL"]],
)
def test_text_keys_are_compared_by_bytes(pg: Driver, keys: list[str]) -> None:
    names, types = ("id", "v"), (pa.string(), pa.int64())
    pg.write(batch(*[("i", key, n) for n, key in enumerate(keys)], names=names, types=types))
    pg.write(batch(*[("u", key, 10 + n) for n, key in enumerate(keys)], names=names, types=types))
    pg.write(batch(("d", keys[0], None), names=names, types=types))

    assert dict(pg.rows()) == {key: 10 + n for n, key in enumerate(keys) if n}


def test_float_keys_are_equal_when_postgres_says_so(pg: Driver) -> None:
    names, types = ("id", "v"), (pa.float64(), pa.int64())
    for deduplicate in (True, False):
        rows = [("i", 0.0, 1), ("u", -0.0, 2), ("i", float("nan"), 3), ("u", float("nan"), 4)]
        pg.write(batch(*rows, names=names, types=types), deduplicate=deduplicate)

        assert pg.rows("v") == [(2,), (4,)]


def test_a_table_with_only_its_key(pg: Driver) -> None:
    only_id = {"names": ("id",), "types": (pa.int64(),)}
    pg.write(batch(("i", 1), ("i", 1), ("i", 2), ("d", 2), ("i", 3), ("d", 3), ("i", 3), **only_id))
    pg.write(batch(("u", 1), ("d", 3), **only_id))

    assert pg.rows() == [(1,)]


def test_without_a_key_rows_are_appended(pg: Driver) -> None:
    pg.write(batch(("i", 1, "a"), ("u", 1, "a")), batch(("i", 1, "a")), key=())

    assert pg.rows() == [(1, "a")] * 3


def test_without_a_key_deletes_are_skipped_with_one_warning(pg: Driver, caplog: pytest.LogCaptureFixture) -> None:
    pg.write(batch(("i", 1, "a"), ("d", 1, "a")), batch(("d", 1, "a")), key=())

    assert pg.rows() == [(1, "a")]
    assert [record.levelname for record in caplog.records if "deletes are skipped" in record.message] == ["WARNING"]


def test_rows_without_the_operation_column_are_inserts(pg: Driver) -> None:
    pg.write(batch(("i", 1, "a")).drop_columns(["_gs_op"]))

    assert pg.rows() == [(1, "a")]


# ── on_conflict, update_where, deduplicate ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_on_conflict_nothing_keeps_the_first_row_after_a_delete(pg: Driver, together: bool) -> None:
    pg.write(batch(("i", 1, "old")))
    rows = [("i", 1, "a"), ("u", 2, "a"), ("u", 2, "b"), ("d", 2, None), ("i", 2, "c"), ("i", 2, "d"), ("i", 3, "a")]
    pg.write(*([batch(*rows)] if together else map(batch, rows)), on_conflict="nothing")

    assert pg.rows() == [(1, "old"), (2, "c"), (3, "a")]


@pytest.mark.parametrize(
    ("operator", "kept"), [(">", 7), (">=", 7), ("<", 3), ("<=", 3), ("!=", 7), ("<>", 7), ("=", 5)]
)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "a batch each"])
def test_update_where_compares_new_with_stored(pg: Driver, operator: str, kept: int, together: bool) -> None:
    rows = [("i", 1, value) for value in (5, 3, 7)]
    made = {"names": ("id", "v"), "types": (pa.int64(), pa.int64())}
    pg.write(
        *([batch(*rows, **made)] if together else [batch(row, **made) for row in rows]), update_where={"v": operator}
    )

    assert pg.rows() == [(1, kept)]


def test_all_conditions_of_update_where_must_hold(pg: Driver) -> None:
    made = {"names": ("id", "a", "b"), "types": (pa.int64(),) * 3}
    rows = [("i", 1, 1, 1), ("u", 1, 2, 0), ("u", 1, 0, 2), ("u", 1, 3, 3)]
    pg.write(batch(*rows[:3], **made), update_where={"a": ">", "b": ">"})
    assert pg.rows() == [(1, 1, 1)]
    pg.write(batch(*rows[3:], **made), update_where={"a": ">", "b": ">"})
    assert pg.rows() == [(1, 3, 3)]


def test_update_where_with_a_missing_column_is_rejected_before_anything_runs(pg: Driver) -> None:
    with pytest.raises(StreamlingError, match=r"`update_where` names the column 'nope'.*\(id, v\)") as raised:
        pg.sink(batch(("i", 1, "a")).schema, update_where={"nope": ">"})
    assert not raised.value.internal


def model(options: dict, rows) -> dict:
    """Return the table that results from ``rows``, one at a time."""
    table: dict = {}
    for op, key, value in rows:
        if op == "d":
            table.pop(key, None)
        elif key not in table or options.get("on_conflict") != "nothing":
            if key in table and options.get("update_where") and not value > table[key]:
                continue
            table[key] = value
    return table


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "options",
    [{}, {"deduplicate": False}, {"on_conflict": "nothing"}, {"update_where": {"v": ">"}},
     {"on_conflict": "nothing", "deduplicate": False}],
    ids=str,
)  # fmt: skip
def test_any_sequence_in_any_batches_gives_the_result_of_one_row_at_a_time(
    pg: Driver, options: dict, seed: int
) -> None:
    chance = random.Random(seed)
    rows = [(chance.choice("iiuud"), chance.randrange(6), chance.randrange(20)) for _ in range(120)]
    made = {"names": ("id", "v"), "types": (pa.int64(), pa.int64())}
    batches, rest = [], rows
    while rest:
        size = chance.randint(1, 25)
        batches.append(batch(*rest[:size], **made))
        rest = rest[size:]
    pg.write(*batches, **options)

    assert dict(pg.rows()) == model(options, rows)


@pytest.mark.parametrize(("deduplicate", "seen"), [(True, ["c"]), (False, ["a", "b", "c"])])
def test_triggers_see_every_change_of_a_key_or_the_last_one_of_a_batch(
    pg: Driver, deduplicate: bool, seen: list[str]
) -> None:
    pg.create("id BIGINT PRIMARY KEY, v TEXT")
    pg.execute("CREATE TABLE {s}.seen (number BIGINT GENERATED ALWAYS AS IDENTITY, v TEXT)")
    pg.execute(
        "CREATE FUNCTION {s}.note() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN EXECUTE format('INSERT INTO %I.seen (v) VALUES ($1)', TG_TABLE_SCHEMA) USING NEW.v;"
        " RETURN NEW; END $$"
    )
    pg.execute("CREATE TRIGGER note BEFORE INSERT OR UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {s}.note()")
    pg.write(batch(("i", 1, "a"), ("u", 1, "b"), ("u", 1, "c")), deduplicate=deduplicate)

    assert pg.rows() == [(1, "c")]
    noted = [value for (value,) in pg.execute("SELECT v FROM {s}.seen ORDER BY number")]
    assert list(dict.fromkeys(noted)) == seen


def test_every_transaction_may_run_in_another_server_session(pg: Driver) -> None:
    """As behind a pooler: what one transaction left in its session is missing in the next."""
    with pg.opened(batch(("i", 1, "a")).schema) as sink:
        for number in range(3):
            sink.write(batch(("i", number, "a"), ("d", 9, None)))
            sink.write(batch(("u", number, "b")))
            sink._writer.session.discard()
        with sink._writer.session.exchange() as connection:
            connection.execute("DISCARD TEMP")
        sink.write(batch(("d", 0, None)))
    assert pg.rows() == [(1, "b"), (2, "b")]


# ── names ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_names_reach_postgres_unchanged(pg: Driver) -> None:
    names = ('a"; DROP TABLE x; --', "select", "Mixed Case", "ünï", "100%s", "{step}")
    rows = batch(*[("i", n, *"vwxyz") for n in range(3)], names=names)
    pg.write(rows, key=names[:1], update_where={"100%s": "!="})
    pg.write(batch(("d", 1, *"vwxyz"), names=names), key=names[:1])

    assert tuple(pg.types()) == names
    assert pg.rows() == [(0, *"vwxyz"), (2, *"vwxyz")]


@pytest.mark.parametrize("what", ["table", "column"])
def test_a_name_that_postgres_would_truncate_is_rejected(pg: Driver, what: str) -> None:
    long = "ü" * 32
    rows = batch(("i", 1, "a"), names=("id", long if what == "column" else "v"))
    with pytest.raises(StreamlingError, match=f"{what} '{long}' has 64 bytes") as raised:
        pg.sink(rows.schema, **({"table": long} if what == "table" else {}))
    assert not raised.value.internal


def test_connections_are_named_and_closed_with_the_sink(pg: Driver) -> None:
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'streamling whose'"
    with pg.opened(batch(("i", 1, "a")).schema, name="whose"):
        assert pg.execute(query) == [(1,)]
    eventually(lambda: pg.execute(query) == [(0,)])


def test_a_sink_can_have_its_own_server(pg: Driver) -> None:
    pg.execute(f"CREATE DATABASE {pg.schema}_other")
    rows = batch(("i", 1, "a"))
    sink = pg.sink(rows.schema, name="My Sink", connections={"my_sink": {"db": f"{pg.schema}_other"}})
    sink.open()
    sink.write(rows)
    sink.close()

    other = Driver(f"{pg.dsn.rpartition('/')[0]}/{pg.schema}_other", schema=pg.schema)
    assert other.rows() == [(1, "a")]
    assert pg.types() == {}


def test_batch_settings_come_from_the_node_then_from_the_configuration(pg):
    schema = pa.schema([("id", pa.int64())])
    assert pg.sink(schema).batching() == (None, None)
    assert pg.sink(schema, batch_size=7, batch_flush_interval="2s").batching() == (7, 2.0)
    pg.settings["batch_size"] = 50
    assert pg.sink(schema).batching() == (50, None)
    assert pg.sink(schema, batch_size=7).batching() == (7, None)
