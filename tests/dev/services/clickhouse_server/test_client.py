"""`clickhouse-connect`, a client that knows nothing of this server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from ipaddress import IPv4Address
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import clickhouse_connect
import pyarrow as pa
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError
from tests.harness.services import ClickHouse

pytestmark = pytest.mark.services


def connect(server: ClickHouse, **options: Any) -> Client:
    address = urlsplit(server.url)
    return clickhouse_connect.get_client(
        host=address.hostname,
        port=address.port,
        interface=address.scheme,
        username=server.user,
        password=options.pop("password", server.password),
        **options,
    )


@pytest.fixture(params=["lz4", "zstd", "gzip", False], ids=str)
def client(clickhouse: ClickHouse, request: pytest.FixtureRequest) -> Iterator[Client]:
    with connect(clickhouse, compress=request.param) as client:
        yield client


def test_rows_are_inserted_and_read(client: Client, table: str) -> None:
    rows = [(i, f"name {i}") for i in range(2000)]
    summary = client.insert(table, rows, column_names=["id", "name"])
    assert summary.written_rows == 2000
    assert client.query(f"SELECT * FROM {table} ORDER BY id").result_rows == rows


def test_arrow_tables_are_inserted_and_read(client: Client, table: str) -> None:
    rows = pa.table({"id": range(2000), "name": [f"name {i}" for i in range(2000)]})
    client.insert_arrow(table, rows)
    assert client.query_arrow(f"SELECT * FROM {table} ORDER BY id").to_pydict() == rows.to_pydict()
    with client.query_arrow_stream(f"SELECT id FROM {table}", settings={"max_block_size": 100}) as batches:
        assert sum(batch.num_rows for batch in batches) == 2000


def test_rows_are_streamed(clickhouse: ClickHouse) -> None:
    with connect(clickhouse) as client, client.query_rows_stream("SELECT number FROM numbers(300000)") as rows:
        assert sum(row[0] for row in rows) == 299_999 * 150_000


def test_values_keep_their_types(clickhouse: ClickHouse, table: str) -> None:
    columns = {
        "big": ("UInt256", 2**256 - 1),
        "wide": ("Decimal(76, 10)", Decimal("-1234567890.0123456789")),
        "day": ("Date32", date(1925, 2, 3)),
        "moment": ("DateTime64(6, 'UTC')", datetime(2026, 5, 1, 10, 0, 0, 123456, tzinfo=UTC)),
        "kind": ("Enum8('a' = 1, 'b' = 2)", "b"),
        "word": ("LowCardinality(Nullable(String))", None),
        "list": ("Array(Nullable(Float64))", [1.5, None]),
        "map": ("Map(String, Int32)", {"k": -1}),
        "pair": ("Tuple(Int8, String)", (1, "x")),
        "uuid": ("UUID", UUID(int=7)),
        "address": ("IPv4", IPv4Address("10.0.0.1")),
        "document": ("JSON", {"a": 1, "b": {"c": "d"}}),
    }
    with connect(clickhouse) as client:
        listed = ", ".join(f"{name} {type}" for name, (type, _) in columns.items())
        client.command(f"CREATE OR REPLACE TABLE {table} ({listed}) ENGINE MergeTree ORDER BY tuple()")
        client.insert(table, [[value for _, value in columns.values()]])
        found = client.query(f"SELECT * FROM {table}", query_tz="UTC")
    assert found.column_names == tuple(columns)
    expected = {name: value for name, (_, value) in columns.items()}
    assert dict(zip(found.column_names, found.first_row, strict=True)) | {"moment": None} == expected | {"moment": None}
    assert found.first_row[3].replace(tzinfo=UTC) == expected["moment"]


def test_parameters_are_bound_by_the_server(clickhouse: ClickHouse) -> None:
    values = {"text": "it's\ta\\b", "numbers": [1, 2], "day": date(2026, 5, 1)}
    with connect(clickhouse) as client:
        found = client.query("SELECT {text:String}, {numbers:Array(Int32)}, {day:Date}", parameters=values)
    assert found.first_row == tuple(values.values())


def test_temporary_tables_last_as_long_as_the_session(clickhouse: ClickHouse, table: str) -> None:
    with connect(clickhouse, session_id=f"s-{table}") as client:
        client.command("CREATE TEMPORARY TABLE temp (x Int32)")
        client.insert("temp", [[1], [2]])
        assert client.command("SELECT sum(x) FROM temp") == 3


def test_errors_have_their_code_and_text(client: Client, table: str) -> None:
    with pytest.raises(DatabaseError, match=r"code: 60.*UNKNOWN_TABLE"):
        client.query("SELECT * FROM nowhere")
    with pytest.raises(DatabaseError, match=r"code: (27|117)"):
        client.raw_insert(table, ["id", "name"], b"not a number,x\n", fmt="CSV")
    assert client.command("SELECT 1") == 1


def test_an_error_after_the_first_rows_is_raised(client: Client) -> None:
    failing = "SELECT repeat('x', 1000), throwIf(number = 10000) FROM numbers(20000)"
    with (
        pytest.raises(StreamFailureError, match="throwIf"),
        client.query_rows_stream(failing, settings={"max_threads": 1, "max_block_size": 1000}) as rows,
    ):
        for _ in rows:
            pass
    assert client.command("SELECT 1") == 1


def test_a_wrong_password_is_an_error(clickhouse: ClickHouse) -> None:
    with pytest.raises(DatabaseError, match="516"):
        connect(clickhouse, password="wrong")


def test_clients_work_at_the_same_time(clickhouse: ClickHouse, table: str) -> None:
    def insert(number: int) -> None:
        with connect(clickhouse) as client:
            for batch in range(3):
                client.insert(table, [(number * 10 + batch, "x")] * 50)
                sums.append(client.command(f"SELECT count() FROM {table} WHERE intDiv(id, 10) = {number}"))

    sums: list[object] = []
    threads = [threading.Thread(target=insert, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums, key=str) == sorted([50, 100, 150] * 4, key=str)
