"""ClickHouse tables by hand: read with clickhouse-connect, filled by a loop of HTTP requests."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

import clickhouse_connect
import pyarrow as pa

#: as for our sink: the table of a sink with the key `id`
_ENGINE = """ENGINE = ReplacingMergeTree(insert_time, is_deleted) ORDER BY id
SETTINGS non_replicated_deduplication_window = 1000"""


def connected(url: str, user: str, password: str) -> Any:
    """Return a client of clickhouse-connect."""
    server = urlsplit(url)
    return clickhouse_connect.get_client(host=server.hostname, port=server.port, username=user, password=password)


def create(client: Any, table: str, columns: str) -> None:
    """Create a table like that of our sink."""
    added = "is_deleted UInt8, insert_time DateTime DEFAULT now()"
    client.command(f"CREATE TABLE {table} ({columns}, {added}) {_ENGINE}")


def read(client: Any, query: str) -> int:
    """Read all rows of a query as Arrow; returns their number."""
    return int(client.query_arrow(query).num_rows)


def insert(url: str, user: str, password: str, table: str, batches: Sequence[pa.RecordBatch]) -> None:
    """Insert batches, one request each, compressed as our sink does by default."""
    server = urlsplit(url)
    names = ", ".join(batches[0].schema.names)
    target = "/?" + urlencode({"query": f"INSERT INTO {table} ({names}) FORMAT ArrowStream", "async_insert": "0"})
    login = b64encode(f"{user}:{password}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Encoding": "zstd"}
    codec = pa.Codec("zstd", compression_level=3)
    connection = HTTPConnection(server.hostname or "", server.port)
    for batch in batches:
        body = codec.compress(_stream(batch), asbytes=True)
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        text = response.read()
        if response.status != 200:
            raise RuntimeError(text.decode())
    connection.close()


def _stream(batch: pa.RecordBatch) -> pa.Buffer:
    output = pa.BufferOutputStream()
    with pa.ipc.new_stream(output, batch.schema) as writer:
        writer.write_batch(batch)
    return output.getvalue()
