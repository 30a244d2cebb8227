"""Files in an S3 bucket, on a local S3 server."""

from __future__ import annotations

import gzip
import io
import json
import logging
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from tests.connectors.file.driver import Run, StoredState, make_source, read_all
from tests.harness.tcp_front import TcpFront

pytestmark = [pytest.mark.services, pytest.mark.spark]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> fs.S3FileSystem:
    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    client = fs.S3FileSystem(endpoint_override=endpoint, region="eu-central-1", allow_bucket_creation=True)
    client.create_dir("lake")
    client.delete_dir_contents("lake", missing_dir_ok=True)
    return client


def put(bucket: fs.S3FileSystem, key: str, content: bytes) -> None:
    with bucket.open_output_stream(f"lake/{key}", compression=None) as out:
        out.write(content)


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["id"] for row in rows)


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_files_of_a_bucket_with_odd_names_and_partitions(spark: Any, bucket: fs.S3FileSystem, scheme: str) -> None:
    put(bucket, "in/dt=2024-01-01/a b+c:d.csv", b"id,name\n1,x\n")
    put(bucket, "in/dt=2024-01-02/b.csv.gz", gzip.compress(b"id,name\n2,y\n"))
    put(bucket, "in/dt=2024-01-02/_SUCCESS", b"")
    put(bucket, "in/dt=2024-01-02/empty.csv", b"")
    assert sorted(read_all(spark, f"{scheme}://lake/in"), key=lambda row: row["id"]) == [
        {"id": 1, "name": "x", "dt": "2024-01-01"},
        {"id": 2, "name": "y", "dt": "2024-01-02"},
    ]


def on_cluster() -> AppConfig:
    """Makes the source treat executors as remote; here they are Python workers of this machine."""
    return AppConfig.model_validate({"spark": {"master": "spark://127.0.0.1:7077"}})


def everything(format: str) -> bytes:
    at = datetime(2024, 1, 31, 10, 0, 0, 500_000)
    rows = [{"id": 1, "price": 2.5, "at": at, "name": 'a "b"\nc'}, {"id": 2, "price": None, "at": None, "name": ""}]
    if format == "csv":
        return b'id,price,at,name\n1,2.5,2024-01-31 10:00:00.5,"a ""b""\nc"\n2,,,""\n'
    if format == "json":
        return b"".join(json.dumps(row, default=str).encode() + b"\n" for row in rows)
    out = io.BytesIO()
    if format == "parquet":
        pq.write_table(
            pa.Table.from_pylist(rows).cast(
                pa.schema(
                    {"id": pa.int32(), "price": pa.float32(), "at": pa.timestamp("ns"), "name": pa.large_string()}
                )
            ),
            out,
        )
    else:
        local = {"type": "long", "logicalType": "local-timestamp-micros"}
        types = {"id": "long", "price": ["null", "double"], "at": ["null", local], "name": "string"}
        fields = [{"name": name, "type": kind} for name, kind in types.items()]
        fastavro.writer(out, {"type": "record", "name": "R", "fields": fields}, rows)
    return out.getvalue()


@pytest.mark.parametrize("format", ["csv", "json", "parquet", "avro"])
@pytest.mark.parametrize("parallelism", [None, 1])
def test_executors_read_buckets_as_the_driver_does(
    spark: Any, bucket: fs.S3FileSystem, format: str, parallelism: int | None
) -> None:
    for day in (1, 2):
        put(bucket, f"in/day={day}/a.{format}", everything(format))
    found = read_all(spark, "s3://lake/in", format=format, parallelism=parallelism, config=on_cluster())
    expected = [
        {"id": 1, "price": 2.5, "at": datetime(2024, 1, 31, 10, 0, 0, 500_000), "name": 'a "b"\nc'},
        {"id": 2, "price": None, "at": None, "name": ""},
    ]
    found.sort(key=lambda row: (row["day"], row["id"]))
    assert found == [{**row, "day": day} for day in (1, 2) for row in expected]


@pytest.mark.parametrize(
    ("format", "bad", "expected"),
    [
        ("csv", b"id\n2\nx\n", "line 3, column 'id': 'x' is not a whole number"),
        ("csv", b"id\n2,3\n", "line 2 has 2 fields, but the header has 1"),
        ("json", b'{"id": 2}\n{"id": "x"}\n', "line 2, column 'id': \"x\" is not a whole number"),
    ],
)
def test_bad_rows_found_by_executors_have_their_location(
    spark: Any, bucket: fs.S3FileSystem, format: str, bad: bytes, expected: str
) -> None:
    put(bucket, f"in/a.{format}", b"id\n1\n" if format == "csv" else b'{"id": 1}')
    run = Run(spark, make_source("s3://lake/in", format=format, bounded=False, config=on_cluster()))
    assert ids(run.rows()) == [1]
    put(bucket, f"in/b.{format}", bad)
    with pytest.raises(Exception) as caught:
        run.rows()
    explained = str(run.source.translate_error(caught.value))
    assert expected in explained
    assert f"lake/in/b.{format}" in explained


def test_bounded_progress_is_stored(spark: Any, bucket: fs.S3FileSystem) -> None:
    put(bucket, "in/b.json", b'{"id": 1}\n')
    state = StoredState()
    assert ids(read_all(spark, "s3://lake/in/", state, format="json")) == [1]
    assert state.get("orders:bounded_progress") == {"completed": [{"first": "in/b.json", "last": "in/b.json"}]}
    put(bucket, "in/c.json", b'{"id": 2}\n')
    assert ids(read_all(spark, "s3://lake/in/", state, format="json")) == [2]


def test_continuous_mode_reads_new_and_changed_objects(spark: Any, bucket: fs.S3FileSystem) -> None:
    put(bucket, "in/a.csv", b"id\n1\n")
    run = Run(spark, make_source("s3://lake/in", bounded=False))
    assert ids(run.rows()) == [1]
    assert run.step() is None
    put(bucket, "in/0.csv", b"id\n2\n")
    put(bucket, "in/a.csv", b"id\n3\n4\n")
    assert ids(run.rows()) == [2, 3, 4]
    run.source.close()


def test_patterns_and_single_objects(spark: Any, bucket: fs.S3FileSystem, tmp_path: Path) -> None:
    for day in (1, 2):
        pq.write_table(pa.table({"id": [day]}), tmp_path / "x.parquet")
        put(bucket, f"in/dt={day}/x.parquet", (tmp_path / "x.parquet").read_bytes())
    assert ids(read_all(spark, "s3://lake/in/dt=*/x.parquet", format="parquet")) == [1, 2]
    assert ids(read_all(spark, "s3://lake/in/dt=2/x.parquet", format="parquet")) == [2]
    assert ids(read_all(spark, "s3://lake/**/*.parquet", format="parquet")) == [1, 2]


def test_a_bad_row_has_its_location_in_the_object(spark: Any, bucket: fs.S3FileSystem) -> None:
    put(bucket, "in/a.csv", b"id\n1\n")
    run = Run(spark, make_source("s3://lake/in", bounded=False))
    run.rows()
    put(bucket, "in/b.csv", b"id\n2\nx\n")
    with pytest.raises(StreamlingError, match=r"'lake/in/b.csv': line 3, column 'id': 'x' is not a whole number"):
        run.rows()
    run.source.close()


def test_a_missing_bucket_and_rejected_credentials_are_user_errors(bucket: fs.S3FileSystem) -> None:
    for path in ("s3://missing/in", "s3://lake/nothing"):
        with pytest.raises(StreamlingError) as caught:
            make_source(path).schema()
        assert not caught.value.internal
        assert caught.value.remedy


def test_an_unreachable_server_is_a_retriable_error(bucket: fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(StreamlingError) as caught:
        make_source("s3://lake/in").schema()
    assert caught.value.retriable
    assert "AWS_ENDPOINT_URL" in (caught.value.remedy or "")


def test_a_server_at_a_private_address_is_denied(bucket: fs.S3FileSystem) -> None:
    put(bucket, "in/a.csv", b"id\n1\n")
    private = AppConfig.model_validate({"network": {"deny_private": True}})
    with pytest.raises(StreamlingError, match=r"'127\.0\.0\.1' is a private address, and network\.deny_private is on"):
        make_source("s3://lake/in", config=private).schema()
    allowed = AppConfig.model_validate({"network": {"deny_private": True, "allow": ["127.0.0.1"]}})
    assert make_source("s3://lake/in", config=allowed).schema().names == ["id"]


def test_a_running_pipeline_waits_for_an_unavailable_server(
    spark: Any, bucket: fs.S3FileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(bucket, "in/a.csv", b"id\n1\n")
    front = TcpFront(urlsplit(os.environ["AWS_ENDPOINT_URL"]).port or 80).open()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{front.port}")
    run = Run(spark, make_source("s3://lake/in", bounded=False))
    assert ids(run.rows()) == [1]
    front.close()
    assert run.step() is None
    put(bucket, "in/b.csv", b"id\n2\n")
    front.open()
    assert ids(run.rows()) == [2]
    front.close()
    run.source.close()
