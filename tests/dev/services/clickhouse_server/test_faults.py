from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest
from tests.harness.clickhouse import clear_faults, inject_fault, pending_faults, query, request

from streamling.dev.services.clickhouse import LocalClickHouse

pytestmark = pytest.mark.services


@pytest.fixture
def server(local_clickhouse: LocalClickHouse) -> Iterator[LocalClickHouse]:
    query(local_clickhouse, "CREATE OR REPLACE TABLE faulty (id Int64) ENGINE MergeTree ORDER BY id")
    yield local_clickhouse
    clear_faults(local_clickhouse)


def rows(server: LocalClickHouse) -> str:
    return query(server, "SELECT arrayStringConcat(arraySort(groupArray(id)), ' ') FROM faulty").strip()


def test_an_error_replaces_the_statement(server: LocalClickHouse) -> None:
    inject_fault(server, "error", match="INSERT INTO faulty", code=252, name="TOO_MANY_PARTS", message="Too many.")
    answer = request(server, "INSERT INTO faulty VALUES (1)")
    assert (answer.status, answer.code) == (500, 252)
    assert answer.body == b"Code: 252. DB::Exception: Too many. (TOO_MANY_PARTS)\n"
    request(server, "INSERT INTO faulty VALUES (2)")
    assert rows(server) == "2"


def test_a_connection_is_closed_before_or_after_the_statement(server: LocalClickHouse) -> None:
    inject_fault(server, "close_before", match="INSERT")
    inject_fault(server, "close_after", match="INSERT")
    for value in (1, 2):
        with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
            request(server, f"{value}\n", query="INSERT INTO faulty FORMAT CSV")
    assert rows(server) == "2"
    assert pending_faults(server) == []


def test_a_response_is_truncated(server: LocalClickHouse) -> None:
    inject_fault(server, "truncate", match="numbers", bytes=10)
    answer = request(server, "SELECT * FROM numbers(100)")
    assert (answer.status, answer.body, answer.complete) == (200, b"0\n1\n2\n3\n4\n", False)


@pytest.mark.parametrize("tagged", [True, False])
def test_an_exception_follows_a_part_of_the_response(server: LocalClickHouse, tagged: bool) -> None:
    error = {"code": 241, "name": "MEMORY_LIMIT_EXCEEDED", "message": "Too much."}
    inject_fault(server, "exception", match="numbers", bytes=4, tagged=tagged, **error)
    answer = request(server, "SELECT * FROM numbers(100)")
    text = b"Code: 241. DB::Exception: Too much. (MEMORY_LIMIT_EXCEEDED)\n"
    tag = answer.headers["X-ClickHouse-Exception-Tag"].encode()
    appended = b"\r\n__exception__\r\n%b\r\n%b%d %b\r\n__exception__\r\n" % (tag, text, len(text), tag)
    assert (answer.status, answer.body, answer.complete) == (200, b"0\n1\n" + (appended if tagged else text), False)


def test_a_fault_skips_requests_and_applies_several_times(server: LocalClickHouse) -> None:
    inject_fault(server, "error", match="faulty", skip=1, times=2)
    statuses = [request(server, "SELECT count() FROM faulty").status for _ in range(4)]
    assert statuses == [200, 500, 500, 200]


def test_a_fault_without_end_applies_until_it_is_removed(server: LocalClickHouse) -> None:
    inject_fault(server, "error", match="SELECT 7", times=0)
    assert [request(server, "SELECT 7").status for _ in range(3)] == [500] * 3
    assert [fault["match"] for fault in pending_faults(server)] == ["SELECT 7"]
    clear_faults(server)
    assert query(server, "SELECT 7") == "7\n"


def test_a_delay_changes_nothing_else(server: LocalClickHouse) -> None:
    inject_fault(server, "delay", match="SELECT 8", seconds=0.01)
    assert query(server, "SELECT 8") == "8\n"
    assert pending_faults(server) == []


def test_an_invalid_fault_is_rejected(server: LocalClickHouse) -> None:
    for fault in ({"action": "explode"}, {"action": "error", "when": "now"}, {}):
        answer = request(server, json.dumps(fault), path="/_test/faults")
        assert (answer.status, answer.code) == (400, 36)
    assert request(server, "{}", path="/_test/faults", password="wrong").code == 516
