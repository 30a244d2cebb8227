from __future__ import annotations

import pytest

from streamling.dev.services.clickhouse_server.statement import (
    Insert,
    Statement,
    first_word,
    parse_insert,
    split_format,
)


@pytest.mark.parametrize(
    ("text", "query", "format", "data"),
    [
        (b"INSERT INTO t FORMAT CSV\n1,2", b"INSERT INTO t ", "CSV", b"1,2"),
        (b"insert into t format Native\r\n\x00;", b"insert into t ", "Native", b"\x00;"),
        (b"INSERT INTO t (format, values) FORMAT Arrow ARROW1", b"INSERT INTO t (format, values) ", "Arrow", b"ARROW1"),
        (b"INSERT INTO t FORMAT Values (1)", b"INSERT INTO t ", "Values", b"(1)"),
        (b"INSERT INTO t SETTINGS a = 1 FORMAT TSV\n\n", b"INSERT INTO t SETTINGS a = 1 ", "TSV", b"\n"),
        (b"/* a /* b */ c */ INSERT INTO t VALUES (1)", b"/* a /* b */ c */ INSERT INTO t ", "Values", b" (1)"),
        (
            b"-- x\nINSERT INTO FUNCTION f('FORMAT CSV') FORMAT TSV",
            b"-- x\nINSERT INTO FUNCTION f('FORMAT CSV') ",
            "TSV",
            b"",
        ),
    ],
)
def test_an_insert_is_split_into_query_format_and_data(text: bytes, query: bytes, format: str, data: bytes) -> None:
    assert parse_insert(text) == Insert(query, format, len(text) - len(data))


@pytest.mark.parametrize(
    "text",
    [b"SELECT 1 FORMAT CSV", b"INSERT INTO t SELECT 1 FORMAT CSV", b"INSERT INTO t WITH 1 AS a SELECT a", b"INSERT"],
)
def test_other_statements_have_no_data(text: bytes) -> None:
    assert parse_insert(text) is None


@pytest.mark.parametrize(
    ("text", "before", "format", "after"),
    [
        (b"SELECT 1", b"SELECT 1", None, b""),
        (b"SELECT 1 -- FORMAT CSV", b"SELECT 1", None, b""),
        (b"SELECT 1 FORMAT CSV;\n", b"SELECT 1 ", "CSV", b""),
        (b"SELECT 1 format JSON SETTINGS a = 1", b"SELECT 1 ", "JSON", b" SETTINGS a = 1"),
        (b"SELECT 1 SETTINGS a = 1 FORMAT JSON", b"SELECT 1 SETTINGS a = 1 ", "JSON", b""),
        (b"SELECT 1 AS format", b"SELECT 1 AS format", None, b""),
        (b"SELECT format FROM t", b"SELECT format FROM t", None, b""),
        (b"SELECT 1 AS format SETTINGS a = 1", b"SELECT 1 AS format SETTINGS a = 1", None, b""),
        (b"SELECT 'FORMAT CSV', `FORMAT` // FORMAT TSV", b"SELECT 'FORMAT CSV', `FORMAT`", None, b""),
        (b"SELECT $x$ FORMAT CSV $x$", b"SELECT $x$ FORMAT CSV $x$", None, b""),
        (b"", b"", None, b""),
    ],
)
def test_the_format_of_a_query_is_found(text: bytes, before: bytes, format: str | None, after: bytes) -> None:
    assert split_format(text) == (before, format, after)


def test_a_statement_is_read_up_to_its_data_however_the_body_is_cut() -> None:
    whole = b"INSERT INTO t FORMAT CSV\n1,2\n"
    for size in range(1, len(whole) + 1):
        pieces = iter([whole[start : start + size] for start in range(0, len(whole), size)])
        statement = Statement.read("", pieces)
        assert statement.insert == Insert(b"INSERT INTO t ", "CSV", 25)
        assert b"".join(statement.data) == b"1,2\n"


def test_the_query_of_the_url_precedes_the_body() -> None:
    rest = iter([b"1,2\n", b"3,4\n"])
    statement = Statement.read("INSERT INTO t FORMAT CSV", rest)
    assert statement.head == b"INSERT INTO t FORMAT CSV\n"
    assert list(statement.data) == [b"1,2\n", b"3,4\n"]
    assert Statement.read("SELECT", iter([b"1"])).text == b"SELECT\n1"


def test_the_first_word_is_found_behind_comments() -> None:
    assert first_word(b"# a\n/* b */ (select 1)") == "("
    assert first_word(b"-- a\nuse db") == "USE"
    assert first_word(b" ") == ""
