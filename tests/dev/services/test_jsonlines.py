from __future__ import annotations

import json

import pytest

from streamling.dev.services.jsonlines import format_message, messages
from streamling.dev.services.topics import Message
from streamling.errors import StreamlingError


def test_a_line_becomes_a_message_with_key_and_operation() -> None:
    [message] = messages(['{"id": 7, "name": "tea", "_gs_op": "u"}\n'], source="x.jsonl", key=["id", "name"])
    assert message.value == b'{"id":7,"name":"tea"}'
    assert message.key == b"7:tea"
    assert message.headers == (("dbz.op", b"u"),)


@pytest.mark.parametrize(("op", "header"), [("i", b"c"), ("u", b"u"), ("d", b"d")])
def test_the_header_is_what_change_streams_carry(op: str, header: bytes) -> None:
    [message] = messages([json.dumps({"a": 1, "kind": op})], source="x", op_field="kind")
    assert message.header("dbz.op") == header


def test_lines_without_an_operation_have_no_header_and_empty_lines_are_skipped() -> None:
    [message] = messages(["\n", '{"a": 1.5}', " "], source="x")
    assert message.headers == ()
    assert message.key is None
    assert message.value == b'{"a":1.5}'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", r"x\.jsonl:2: "),
        ("[1]", r"x\.jsonl:2: the line is not a JSON object"),
        ('{"a": 1}', r"x\.jsonl:2: the key field 'id' is missing"),
        ('{"id": 1, "_gs_op": "x"}', r"x\.jsonl:2: _gs_op is 'x', expected i, u or d"),
    ],
)
def test_a_bad_line_is_named(line: str, complaint: str) -> None:
    with pytest.raises(StreamlingError, match=complaint):
        list(messages(['{"id": 1}', line], source="x.jsonl", key=["id"]))


def test_a_message_is_shown_with_everything_it_has() -> None:
    message = Message(b'{"a":1}', b"k", (("dbz.op", b"C"), ("n", None)), partition=2, offset=5, timestamp=9)
    assert json.loads(format_message(message, None)) == {
        "partition": 2,
        "offset": 5,
        "timestamp": 9,
        "key": "k",
        "op": "i",
        "headers": {"dbz.op": "C", "n": None},
        "value": {"a": 1},
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (b"plain text", "plain text"),
        (b"\xff", "\\xff"),
        (b"\x00\x00\x00\x00\x01\x02", "Avro 000000000102"),
    ],
)
def test_values_that_are_not_json_are_shown_as_they_are(value: bytes | None, text: str | None) -> None:
    assert json.loads(format_message(Message(value), None))["value"] == text
