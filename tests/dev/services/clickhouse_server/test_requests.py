"""ClickHouse's HTTP interface as its documentation describes it; also valid for a real server."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import threading
import zlib
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from tests.harness.clickhouse import Answer, query, request
from tests.harness.pipelines import eventually
from tests.harness.services import ClickHouse

pytestmark = pytest.mark.services


# ── queries ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_query_may_be_in_the_url_in_the_body_or_in_both(clickhouse: ClickHouse) -> None:
    assert request(clickhouse, method="GET", query="SELECT 1").body == b"1\n"
    assert request(clickhouse, "SELECT 2").body == b"2\n"
    assert request(clickhouse, "3", query="SELECT").body == b"3\n"


def test_settings_and_query_parameters_are_in_the_url(clickhouse: ClickHouse) -> None:
    found = query(
        clickhouse,
        "SELECT {text:String}, {list:Array(Int8)}, getSetting('max_block_size') FORMAT TSVRaw",
        param_text="a\\tb'c",
        param_list="[1,2]",
        max_block_size="1234",
    )
    assert found == "a\tb'c\t[1,2]\t1234\n"


def test_the_format_comes_from_the_query_the_url_or_a_header(clickhouse: ClickHouse) -> None:
    user = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    by_header = request(clickhouse, "SELECT 'a'", headers={**user, "X-ClickHouse-Format": "JSONCompactEachRow"})
    assert by_header.body == b'["a"]\n'
    by_url = request(clickhouse, "SELECT 'a'", default_format="CSV")
    assert (by_url.body, by_url.headers["X-ClickHouse-Format"]) == (b'"a"\n', "CSV")
    by_query = request(clickhouse, "SELECT 'a' AS x FORMAT JSON", default_format="CSV")
    assert json.loads(by_query.body)["data"] == [{"x": "a"}]


def test_the_database_comes_from_the_url_or_a_header(clickhouse: ClickHouse) -> None:
    user = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    assert query(clickhouse, "SELECT currentDatabase()", database="system") == "system\n"
    answer = request(clickhouse, "SELECT currentDatabase()", headers={**user, "X-ClickHouse-Database": "system"})
    assert answer.body == b"system\n"
    assert request(clickhouse, "SELECT 1", database="nowhere").code == 81


def test_responses_name_query_time_zone_and_work(clickhouse: ClickHouse) -> None:
    answer = request(clickhouse, "SELECT number FROM numbers(10)", query_id="q-7", wait_end_of_query="1")
    assert answer.headers["X-ClickHouse-Query-Id"] == "q-7"
    assert answer.headers["X-ClickHouse-Timezone"]
    assert (answer.summary["read_rows"], answer.summary["result_rows"]) == ("10", "10")


def test_the_server_says_that_it_is_alive_without_a_password(clickhouse: ClickHouse) -> None:
    for path in ("/ping", "/"):
        assert request(clickhouse, method="GET", path=path, headers={}).body == b"Ok.\n"


def test_external_data_are_a_table_for_one_query(clickhouse: ClickHouse) -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="e"; filename="e"\r\n\r\n1\ta\n2\tb\n\r\n--x--\r\n'
    token = base64.b64encode(f"{clickhouse.user}:{clickhouse.password}".encode()).decode()
    headers = {"Content-Type": "multipart/form-data; boundary=x", "Authorization": f"Basic {token}"}
    answer = request(
        clickhouse, body, headers=headers, query="SELECT sum(id), max(name) FROM e", e_structure="id Int8, name String"
    )
    assert answer.body == b"3\tb\n"
    assert request(clickhouse, "SELECT * FROM e").code == 60


# ── inserts ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_rows_are_inserted_in_any_format(clickhouse: ClickHouse, table: str) -> None:
    rows = pa.table({"id": [1, 2], "name": ["a", "b"]})
    stream, file = io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(stream, rows.schema) as writer:
        writer.write_table(rows)
    with pa.ipc.new_file(file, rows.schema) as writer:
        writer.write_table(rows)
    for format, data in (
        ("Arrow", file.getvalue()),
        ("ArrowStream", stream.getvalue()),
        ("CSV", b"1,a\n2,b\n"),
        ("JSONEachRow", b'{"id": 1, "name": "a"} {"id": 2, "name": "b"}'),
        ("Values", b"(1, 'a'), (2, 'b')"),
        ("RowBinary", b"\x01" + bytes(7) + b"\x01a" + b"\x02" + bytes(7) + b"\x01b"),
    ):
        answer = request(clickhouse, data, query=f"INSERT INTO {table} (id, name) FORMAT {format}")
        assert (answer.status, answer.summary["written_rows"]) == (200, "2"), answer.body
    assert query(clickhouse, f"SELECT id, name, count() FROM {table} GROUP BY ALL ORDER BY id") == "1\ta\t6\n2\tb\t6\n"


def test_an_insert_may_be_in_the_body_with_its_rows(clickhouse: ClickHouse, table: str) -> None:
    request(clickhouse, f"INSERT INTO {table} VALUES (1, 'a')")
    request(clickhouse, iter([b"INSERT INTO ", f"{table} FORMAT C".encode(), b"SV\n2,", b"b\n"]))
    request(clickhouse, f"INSERT INTO {table} VALUES ({{id:Int64}}, {{name:String}})", param_id="3", param_name="c")
    request(clickhouse, "4,d", query="INSERT INTO {table:Identifier} FORMAT CSV", param_table=table)
    assert query(clickhouse, f"SELECT * FROM {table} ORDER BY id") == "1\ta\n2\tb\n3\tc\n4\td\n"


def test_an_upload_that_breaks_off_inserts_nothing(clickhouse: ClickHouse, table: str) -> None:
    def broken() -> object:
        yield b"1,a\n2,b\n"
        raise ConnectionAbortedError

    with pytest.raises(ConnectionAbortedError):
        request(clickhouse, broken(), query=f"INSERT INTO {table} FORMAT CSV")  # type: ignore[arg-type]
    assert query(clickhouse, f"SELECT count() FROM {table}") == "0\n"


def test_a_repeated_token_inserts_once(clickhouse: ClickHouse, table: str) -> None:
    query(clickhouse, f"ALTER TABLE {table} MODIFY SETTING non_replicated_deduplication_window = 100")
    for token in ("a", "a", "b"):
        request(clickhouse, "1,x\n", query=f"INSERT INTO {table} FORMAT CSV", insert_deduplication_token=token)
    assert query(clickhouse, f"SELECT count() FROM {table}") == "2\n"


def test_get_does_not_change_data(clickhouse: ClickHouse, table: str) -> None:
    for statement in (
        f"INSERT INTO {table} VALUES (1, 'a')",
        f"INSERT INTO {table} SELECT 1, 'a'",
        f"TRUNCATE TABLE {table}",
        f"ALTER TABLE {table} ADD COLUMN x Int8",
    ):
        answer = request(clickhouse, method="GET", query=statement)
        assert (answer.status, answer.code) == (500, 164), statement


# ── errors ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("statement", "status", "code"),
    [
        ("SELEC 1", 400, 62),
        ("", 400, 62),
        ("SELECT 1; SELECT 2", 400, 62),
        ("SELECT * FROM nowhere", 404, 60),
        ("SELECT nothing", 404, 47),
        ("SELECT 1 FORMAT Nothing", 404, 73),
        ("SELECT 1 SETTINGS nothing = 1", 404, 115),
        ("SELECT throwIf(1)", 500, 395),
        ("SELECT sleepEachRow(0.1) FROM numbers(30) SETTINGS max_execution_time = 0.1, max_block_size = 1", 408, 159),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", 500, 358),
        ("INSERT INTO nowhere FORMAT CSV\n1", 404, 60),
    ],
)
def test_an_error_has_the_status_of_its_code(clickhouse: ClickHouse, statement: str, status: int, code: int) -> None:
    answer = request(clickhouse, statement)
    assert (answer.status, answer.code) == (status, code)
    assert answer.body.startswith(f"Code: {code}. DB::Exception: ".encode())


def test_rows_that_do_not_fit_are_an_error(clickhouse: ClickHouse, table: str) -> None:
    answer = request(clickhouse, "x,a\n", query=f"INSERT INTO {table} FORMAT CSV")
    assert (answer.status, answer.code) == (400, 27)
    assert query(clickhouse, f"SELECT count() FROM {table}") == "0\n"


def test_an_error_after_the_first_rows_is_appended_to_them(clickhouse: ClickHouse) -> None:
    failing = "SELECT repeat('x', 1000), throwIf(number = 10000) FROM numbers(20000)"
    answer = request(clickhouse, failing, max_threads="1", max_block_size="1000")
    assert (answer.status, answer.complete) == (200, False)
    assert answer.body.startswith(b"x" * 1000 + b"\t0\n")
    tag = answer.headers["X-ClickHouse-Exception-Tag"].encode()
    marked = rb"\r\n__exception__\r\n%b\r\n(Code: 395\..*\n)(\d+) %b\r\n__exception__\r\n\Z" % (tag, tag)
    found = re.search(marked, answer.body, re.DOTALL)
    assert found is not None
    assert len(found[1]) == int(found[2])

    whole = request(clickhouse, failing, wait_end_of_query="1")
    assert (whole.status, whole.code) == (500, 395)


def test_wrong_credentials_are_rejected(clickhouse: ClickHouse) -> None:
    def rejected(answer: Answer) -> bool:
        return (answer.status, answer.code) == (403, 516)

    assert rejected(request(clickhouse, "SELECT 1", password="wrong"))
    assert rejected(request(clickhouse, "SELECT 1", user="nobody"))
    assert rejected(request(clickhouse, "SELECT 1", headers={"X-ClickHouse-User": "nobody"}))
    assert request(clickhouse, "SELECT 1", headers={}, user=clickhouse.user).code in (194, 516)


def test_credentials_may_be_in_headers_or_in_the_url(clickhouse: ClickHouse) -> None:
    by_header = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    assert request(clickhouse, "SELECT 1", headers=by_header).body == b"1\n"


# ── compression ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "lz4", "zstd", "br"])
def test_requests_and_responses_are_compressed(clickhouse: ClickHouse, table: str, encoding: str) -> None:
    data = "".join(f"{i}\tname {i}\n" for i in range(5000)).encode()
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    sent = {**headers, "Content-Encoding": encoding}
    inserted = request(clickhouse, compress(data, encoding), headers=sent, query=f"INSERT INTO {table} FORMAT TSV")
    assert inserted.status == 200, inserted.body
    answer = request(
        clickhouse,
        f"SELECT id, name FROM {table} ORDER BY id",
        headers={**headers, "Accept-Encoding": encoding},
        enable_http_compression="1",
    )
    assert answer.headers["Content-Encoding"] == encoding
    assert len(answer.body) < len(data)
    assert decompress(answer.body, encoding) == data


def test_responses_are_compressed_only_on_request(clickhouse: ClickHouse) -> None:
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password, "Accept-Encoding": "gzip"}
    answer = request(clickhouse, "SELECT 1", headers=headers)
    assert (answer.headers["Content-Encoding"], answer.body) == (None, b"1\n")


def test_a_request_that_cannot_be_decompressed_is_an_error(clickhouse: ClickHouse, table: str) -> None:
    headers = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    for encoding in ("gzip", "deflate", "zstd"):
        sent = {**headers, "Content-Encoding": encoding}
        answer = request(clickhouse, b"1,not compressed\n", headers=sent, query=f"INSERT INTO {table} FORMAT CSV")
        assert answer.status >= 400
    assert query(clickhouse, f"SELECT count() FROM {table}") == "0\n"


def compress(data: bytes, encoding: str) -> bytes:
    if encoding in ("gzip", "deflate"):
        return gzip.compress(data) if encoding == "gzip" else zlib.compress(data)
    output = pa.BufferOutputStream()
    with pa.CompressedOutputStream(output, {"br": "brotli"}.get(encoding, encoding)) as stream:
        stream.write(data)
    return output.getvalue().to_pybytes()


def decompress(data: bytes, encoding: str) -> bytes:
    if encoding in ("gzip", "deflate"):
        return gzip.decompress(data) if encoding == "gzip" else zlib.decompress(data)
    with pa.CompressedInputStream(pa.BufferReader(data), {"br": "brotli"}.get(encoding, encoding)) as stream:
        content: bytes = stream.read()
        return content


# ── sessions ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_has_temporary_tables_settings_and_a_database(clickhouse: ClickHouse, table: str) -> None:
    name = f"s-{table}"
    query(clickhouse, "CREATE TEMPORARY TABLE mine (x Int8)", session_id=name)
    query(clickhouse, "INSERT INTO mine VALUES (7)", session_id=name)
    query(clickhouse, "SET max_block_size = 11", session_id=name)
    query(clickhouse, "USE system", session_id=name)
    assert query(clickhouse, "SELECT x FROM mine", session_id=name) == "7\n"
    state = "SELECT getSetting('max_block_size'), currentDatabase()"
    assert query(clickhouse, state, session_id=name) == "11\tsystem\n"
    assert request(clickhouse, "SELECT x FROM mine").code == 60
    assert "\tsystem\n" not in query(clickhouse, state)


def test_what_a_request_sets_ends_with_the_request(clickhouse: ClickHouse, table: str) -> None:
    name = f"s-{table}"
    state = "SELECT getSetting('max_block_size'), getSetting('max_joined_block_size_rows'), currentDatabase()"
    default = query(clickhouse, state, session_id=name)
    for settings in ({"max_block_size": "5"}, {"max_block_size": "5"}, {"max_joined_block_size_rows": "9"}):
        changed = query(clickhouse, state, session_id=name, database="system", **settings)
        assert changed.endswith("\tsystem\n")
        assert next(iter(settings.values())) in changed.split("\t")
    assert query(clickhouse, state, session_id=name) == default
    query(clickhouse, "SET max_block_size = 6", session_id=name, max_block_size="5", database="system")
    assert query(clickhouse, state, session_id=name).startswith("6\t")


def test_a_session_runs_one_query_at_a_time(clickhouse: ClickHouse, table: str) -> None:
    endless = HTTPConnection(urlsplit(clickhouse.url).netloc, timeout=60)
    user = {"X-ClickHouse-User": clickhouse.user, "X-ClickHouse-Key": clickhouse.password}
    endless.request("POST", f"/?session_id=s-{table}", b"SELECT number FROM system.numbers", user)
    with endless.getresponse() as begun:
        assert begun.read(4) == b"0\n1\n"
        assert request(clickhouse, "SELECT 1", session_id=f"s-{table}").code == 373
    endless.close()
    eventually(lambda: request(clickhouse, "SELECT 1", session_id=f"s-{table}").status == 200)


def test_a_session_can_be_required_to_exist(clickhouse: ClickHouse, table: str) -> None:
    assert request(clickhouse, "SELECT 1", session_id=f"s-{table}", session_check="1").code == 372
    query(clickhouse, "SELECT 1", session_id=f"s-{table}")
    assert query(clickhouse, "SELECT 1", session_id=f"s-{table}", session_check="1") == "1\n"


# ── concurrency ─────────────────────────────────────────────────────────────────────────────────────────────


def test_requests_run_at_the_same_time(clickhouse: ClickHouse, table: str) -> None:
    def insert_and_read(number: int) -> None:
        for batch in range(5):
            rows = "".join(f"{number * 1000 + batch * 100 + i},n\n" for i in range(100))
            query(clickhouse, f"INSERT INTO {table} FORMAT CSV\n{rows}")
            found = query(clickhouse, f"SELECT count() FROM {table} WHERE intDiv(id, 1000) = {number}")
            counts.append((batch + 1) * 100 == int(found))

    counts: list[bool] = []
    threads = [threading.Thread(target=insert_and_read, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [True] * 30
    assert query(clickhouse, f"SELECT count(), uniqExact(id) FROM {table}") == "3000\t3000\n"
