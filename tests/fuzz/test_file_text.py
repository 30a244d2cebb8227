"""Random and mutated CSV and JSON content: the rows equal those of Python's own readers, or there is an error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.file.arrow import Content, TextFileReader, load
from streamling.connectors.file.formats import csv as _file_csv
from streamling.connectors.file.formats import json as _file_json
from streamling.connectors.file.formats import text_types as _file_text
from streamling.connectors.file.own_files import OwnFiles
from streamling.connectors.file.schema import FileSchema
from streamling.connectors.file.storage import File, LocalStorage
from streamling.errors import StreamlingError
from tests.fuzz.budget import SECONDS, rounds

#: fragments that break parsers, from which random texts are built
CSV_PARTS = [
    '"',
    '""',
    ",",
    "\n",
    "\r\n",
    "\r",
    "a",
    "ü😀",
    " ",
    "\x00",
    "\ufeff",
    "'",
    '5" pipe',
    "#",
    "\\",
    "NULL",
    "0x1",
]
JSON_PARTS = [
    '"',
    "\\",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "a",
    "ü😀",
    " ",
    "\n",
    "\x00",
    "null",
    "}{",
    "1.50",
    "NaN",
    "\u2028",
]
MUTATIONS = [
    b'"',
    b",",
    b"\n",
    b"\r",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b"\x00",
    b"\xff",
    b"0",
    b"1",
    b"e",
    b"-",
    b" ",
]


def some_text(rng: random.Random, parts: list[str]) -> str:
    return "".join(rng.choices(parts, k=rng.choice([0, 1, 1, 2, 5])))


def mutated(rng: random.Random, content: bytes) -> bytes:
    """``content`` with a few bytes changed, added or removed."""
    data = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        length = rng.choice([0, 1, 1, 3])
        data[at : at + length] = rng.choice([b"", *MUTATIONS])
    return bytes(data)


def read(format: str, content: bytes, schema: pa.Schema) -> list[dict[str, Any]] | StreamlingError:
    """The rows of the source for a file."""
    tables = TextFileReader(format, FileSchema(schema, pa.schema([])), threads=1)
    try:
        return [
            row for table in tables.read([Content(content, File("a.file", "a", 1, 1))]) for row in table.to_pylist()
        ]
    except StreamlingError as error:
        return error


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = pa.schema([(name, pa.string()) for name in ("a", "b", "c")])


def csv_content(rng: random.Random, rows: list[list[str | None]], line_end: str) -> bytes:
    def field(value: str | None) -> str:
        if value is None:
            return ""
        plain = value and value.isalnum() and rng.random() < 0.7
        return value if plain else '"' + value.replace('"', '""') + '"'

    lines = [",".join(map(field, row)) for row in [["a", "b", "c"], *rows]]
    return (line_end.join(lines) + rng.choice(["", line_end])).encode()


def of_csv_module(content: bytes) -> list[dict[str, str]] | None:
    """Rows of Python's reader; None if it finds an error."""
    try:
        text = content.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (UnicodeDecodeError, csv.Error):
        return None
    header = [name or f"_c{index}" for index, name in enumerate(rows[0])] if rows else []
    if any(len(row) != len(header) for row in rows):
        return None
    return [dict(zip(header, row, strict=True)) for row in rows[1:]]


def is_unclosed(content: bytes) -> bool:
    """Whether another row would become part of the last field."""
    text = content.decode("utf-8-sig")
    return [*csv.reader(io.StringIO(text + "\nx,y,z\n", newline=""))][-1] != ["x", "y", "z"]


def test_random_csv() -> None:
    for rng in rounds(SECONDS / 8):
        for _ in range(50):
            rows = [[rng.choice([None, some_text(rng, CSV_PARTS)]) for _ in range(3)] for _ in range(rng.randint(1, 5))]
            content = csv_content(rng, rows, rng.choice(["\n", "\r\n", "\r"]))
            assert read("csv", content, TEXTS) == [dict(zip("abc", row, strict=True)) for row in rows], content


def test_mutated_csv() -> None:
    for rng in rounds(SECONDS / 8):
        for _ in range(50):
            rows = [[some_text(rng, CSV_PARTS) for _ in range(3)] for _ in range(rng.randint(1, 4))]
            content = mutated(rng, csv_content(rng, rows, rng.choice(["\n", "\r\n"])))
            found, expected = read("csv", content, TEXTS), of_csv_module(content)
            if isinstance(found, StreamlingError):
                assert "a.file'" in str(found) or "names are not case-sensitive" in str(found)
                continue
            assert expected is not None, content
            assert not is_unclosed(content), content
            assert [[row[name] or "" for name in "abc"] for row in found] == [
                [row.get(name, "") for name in "abc"] for row in expected
            ], content


NUMBERS: list[tuple[pa.DataType, Callable[[random.Random], str]]] = [
    (
        _file_text.INT,
        lambda rng: rng.choice(["", " ", "+", "-"]) + str(rng.choice([0, 7, 2**53 + 1, 2**63 - 1, 2**63])),
    ),
    (
        _file_text.DOUBLE,
        lambda rng: rng.choice(["1.5", "1e400", "-1e-400", str(2**53 + 1), str(2**53), "NaN", ".5", "5."]),
    ),
    (_file_text.BOOLEAN, lambda rng: rng.choice(["true", "FALSE", "tRuE", "1", "yes"])),
    (
        _file_text.DATE,
        lambda rng: f"{rng.choice([0, 1, 2024, 9999]):04}-{rng.randint(1, 13):02}-{rng.randint(1, 31):02}",
    ),
    (
        _file_text.TIMESTAMP,
        lambda rng: (
            f"2024-01-{rng.randint(1, 31):02}{rng.choice(' T')}{rng.randint(0, 24):02}:00"
            + rng.choice(["", ":59", ":60", ":59.1", ":59.123456", ":59.123456789"])
        ),
    ),
    (
        _file_text.INSTANT,
        lambda rng: (
            f"{rng.choice([1, 2024, 9999]):04}-{rng.choice(['01-01', '12-31'])}T{rng.choice(['00', '23'])}:59:00"
            + rng.choice(["Z", "+02:00", "-02:00", "+23:59", ""])
        ),
    ),
]


def test_values_converted_fast_are_those_converted_carefully() -> None:
    """Arrow's conversion while parsing, compared with the one that checks every text, and with single values."""
    for rng in rounds(SECONDS / 8):
        for kind, make in NUMBERS:
            texts = [make(rng) for _ in range(rng.choice([1, 1, 3]))]
            fits = all(_file_text.fits(text.strip(), kind) for text in texts)
            content = "a\n" + "\n".join(texts) + "\n"
            careful: Any = None
            try:
                careful = _file_csv.parse_column(_file_csv.read_texts(content.encode()).column("a"), kind).to_pylist()
            except pa.ArrowInvalid:
                assert not fits, texts
            found = read("csv", content.encode(), pa.schema([("a", kind)]))
            assert isinstance(found, StreamlingError) == (careful is None), texts
            if careful is not None:
                assert fits, texts
                assert repr([row["a"] for row in found]) == repr(careful), texts


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────

JSON_SCHEMA = pa.schema(
    [
        ("a", pa.string()),
        ("n", pa.int64()),
        ("d", pa.float64()),
        ("day", pa.date32()),
        ("o", pa.struct([("k", pa.string()), ("l", pa.list_(pa.int64()))])),
    ]
)


def json_row(rng: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {
        "a": some_text(rng, JSON_PARTS),
        "n": rng.choice([0, -1, 2**63 - 1, -(2**63)]),
        "d": rng.choice([0.1, 1e300, -2.5, 3]),
        "day": rng.choice(["2024-02-29", "0001-01-01", "9999-12-31"]),
        "o": {"k": some_text(rng, JSON_PARTS), "l": rng.choices([None, 1, 2], k=rng.randint(0, 3))},
    }
    return {name: rng.choice([None, value, value]) for name, value in row.items() if rng.random() < 0.9}


def complete(row: dict[str, Any]) -> dict[str, Any]:
    whole = {name: row.get(name) for name in JSON_SCHEMA.names}
    whole["day"] = whole["day"] and date.fromisoformat(whole["day"])
    whole["o"] = whole["o"] and {name: whole["o"].get(name) for name in ("k", "l")}
    return whole


def json_content(rng: random.Random, rows: list[dict[str, Any]]) -> bytes:
    separators = rng.choice([(", ", ": "), (",", ":")])
    end = rng.choice(["\n", "\r\n", "\n\n"])
    ascii_only = rng.random() < 0.5
    return end.join(json.dumps(row, ensure_ascii=ascii_only, separators=separators) for row in rows).encode()


def test_random_json() -> None:
    for rng in rounds(SECONDS / 8):
        for _ in range(20):
            rows = [json_row(rng) for _ in range(rng.randint(1, 5))]
            content = json_content(rng, rows)
            assert read("json", content, JSON_SCHEMA) == list(map(complete, rows)), content


def careful_json(content: bytes) -> list[dict[str, Any]] | None:
    """The rows of the slow parser; None if there is an error."""
    raw = pa.schema([pa.field(field.name, _file_json.raw_type(field.type)) for field in JSON_SCHEMA])
    types = {field.name: field.type for field in JSON_SCHEMA}
    try:
        return _file_json.read_slowly(content, raw, types)[0].to_pylist()
    except (pa.ArrowInvalid, ValueError):
        return None


def strictly(content: bytes) -> list[dict[str, Any]] | None:
    """Rows of Python's reader; None if a line is not one object."""
    try:
        lines = [line for line in content.decode("utf-8-sig").split("\n") if line.strip()]
        rows = [json.loads(line) for line in lines]
    except ValueError:
        return None
    return rows if all(isinstance(row, dict) for row in rows) else None


def test_mutated_json() -> None:
    for rng in rounds(SECONDS / 8):
        for _ in range(50):
            content = mutated(rng, json_content(rng, [json_row(rng) for _ in range(rng.randint(1, 4))]))
            found, careful, expected = read("json", content, JSON_SCHEMA), careful_json(content), strictly(content)
            if isinstance(found, StreamlingError):
                assert "a.file'" in str(found) or "names are not case-sensitive" in str(found)
                assert careful is None or "names are not case-sensitive" in str(found), content
                continue
            assert expected is not None, content
            assert len(found) == len(expected), content
            known = [{name: row[name] for name in JSON_SCHEMA.names if name != "o"} for row in found]
            assert careful is not None, content
            assert known == [{name: row[name] for name in JSON_SCHEMA.names if name != "o"} for row in careful], content
            for row, want in zip(found, expected, strict=True):
                if isinstance(want.get("a"), str):
                    assert row["a"] == want["a"], content
                assert row["n"] == want.get("n"), content


def loaded(storage: LocalStorage, path: Path) -> bytes | StreamlingError:
    try:
        return load(storage, File(str(path), "a", 1, 1)).data
    except StreamlingError as error:
        return error


@pytest.mark.parametrize("format", ["csv", "json"])
def test_mutated_gzip_is_noticed(format: str, tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), format, OwnFiles())
    for rng in rounds(SECONDS / 8):
        for _ in range(20):
            content = ("a\n" + "x,\n" * rng.randint(1, 500)).encode()
            path = tmp_path / f"a.{format}.gz"
            path.write_bytes(mutated(rng, gzip.compress(content, mtime=0)))
            found = loaded(storage, path)
            if isinstance(found, StreamlingError):
                assert str(path) in str(found)
            else:
                assert found.startswith(content)
