"""Functions over random values equal Python's own integers, decimal, re and json."""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.frames import prepare
from streamling.sql.plan import Column
from streamling.sql.statement import Statement

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "0")) or random.randrange(2**32)
ROWS = int(os.environ.get("STREAMLING_TEST_ROWS", "200"))
SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "a": pa.int64(),
        "b": pa.int64(),
        "small": pa.int64(),
        "price": pa.decimal128(20, 6),
        "text": pa.string(),
        "words": pa.list_(pa.string()),
        "json": pa.string(),
    }
)
Row = dict[str, Any]


def _row(chance: random.Random, number: int) -> Row:
    bits = chance.choice([4, 31, 62])
    words = ["".join(chance.choices("abcXYZ019_-ż ", k=chance.randrange(5))) for _ in range(chance.randrange(5))]
    return {
        "id": number,
        "a": chance.randrange(-(2**bits), 2**bits),
        "b": chance.randrange(-(2**bits), 2**bits),
        "small": chance.randrange(0, 21),
        "price": Decimal(chance.randrange(-(10**14), 10**14)).scaleb(-6),
        "text": "-".join(words),
        "words": words,
        "json": json.dumps({"a": words, "b": {"n": number, "x": chance.random(), "t": chance.choice(words or [None])}}),
    }


def _quantized(places: int, rounding: str) -> Callable[[Row], Decimal]:
    def value(row: Row) -> Decimal:
        with localcontext(prec=60):
            return row["price"].quantize(Decimal(1).scaleb(-places), rounding)

    return value


def _found(pattern: str, group: int = 0) -> Callable[[Row], str | None]:
    def value(row: Row) -> str | None:
        found = re.search(pattern, row["text"])
        return (found.group(group) or "") if found else None

    return value


#: expression → the same in Python
PROPERTIES: dict[str, Callable[[Row], Any]] = {
    "gcd(a, b)": lambda row: math.gcd(row["a"], row["b"]),
    "lcm(small, b / 65536)": lambda row: math.lcm(row["small"], abs(row["b"]) // 65536),
    "bin(a)": lambda row: f"{row['a']:b}",
    "to_hex(a)": lambda row: f"{row['a'] & (2**64 - 1):x}",
    "_gs_conv_base(cast(a as text), 10, 36)": lambda row: _base36(row["a"]),
    "factorial(small)": lambda row: math.factorial(row["small"]),
    "abs(a)": lambda row: abs(row["a"]),
    "a / 7": lambda row: abs(row["a"]) // 7 * (1 if row["a"] >= 0 else -1),
    "round(price, 2)": _quantized(2, ROUND_HALF_UP),
    "ceil(price)": _quantized(0, ROUND_CEILING),
    "floor(price)": _quantized(0, ROUND_FLOOR),
    "price + 1": lambda row: row["price"] + 1,
    "regexp_like(text, '[0-9]+')": lambda row: bool(re.search("[0-9]+", row["text"])),
    "regexp_count(text, '[a-c]+')": lambda row: len(re.findall("[a-c]+", row["text"])),
    "regexp_extract(text, '\\w+')": _found(r"\w+"),
    "regexp_extract(text, '([a-c])([0-9])?', 2)": _found("([a-c])([0-9])?", 2),
    "regexp_substr(text, '[XYZ]+')": _found("[XYZ]+"),
    "regexp_extract_all(text, '([a-z])', 1)": lambda row: re.findall("([a-z])", row["text"]),
    "regexp_replace(text, '[0-9]', '$1\\')": lambda row: re.sub("[0-9]", lambda _: "$1\\", row["text"]),
    "regexp_instr(text, '[0-9]')": lambda row: m.start() + 1 if (m := re.search("[0-9]", row["text"])) else 0,
    "split(text, '-')": lambda row: row["text"].split("-"),
    "split_index(text, '-', 1)": lambda row: (row["text"].split("-") + [None] * 2)[1],
    "array_to_string(words, '-')": lambda row: "-".join(row["words"]),
    "array_position(words, 'a')": lambda row: row["words"].index("a") + 1 if "a" in row["words"] else None,
    "array_enumerate(words)": lambda row: [{"index": i, "value": word} for i, word in enumerate(row["words"])],
    "json_value(json, '$.b.n')": lambda row: str(row["id"]),
    "json_value(json, '$.b.t')": lambda row: json.loads(row["json"])["b"]["t"],
    "json_query(json, '$.a')": lambda row: json.dumps(row["words"], ensure_ascii=False, separators=(",", ":")),
    "json_exists(json, '$.b.t')": lambda row: json.loads(row["json"])["b"]["t"] is not None,
    "json_string(words)": lambda row: json.dumps(row["words"], ensure_ascii=False, separators=(",", ":")),
    "json_object('t', text, 'n', a)": lambda row: json.dumps(
        {"t": row["text"], "n": row["a"]}, ensure_ascii=False, separators=(",", ":")
    ),
    "json_unquote(json_quote(text))": lambda row: row["text"],
    "_gs_byte_to_hex(_gs_from_base58(_gs_to_base58(cast(text as binary))))": lambda row: row["text"].encode().hex(),
}


def _base36(number: int) -> str:
    digits, rest = "", abs(number)
    while rest:
        rest, place = divmod(rest, 36)
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"[place] + digits
    return ("-" if number < 0 else "") + (digits or "0")


@pytest.fixture(scope="module")
def given() -> list[Row]:
    print(f"STREAMLING_TEST_SEED={SEED}")
    chance = random.Random(SEED)
    return [_row(chance, number) for number in range(ROWS)]


@pytest.fixture(scope="module")
def found(spark: Any, given: list[Row]) -> pa.Table:
    items = ", ".join(f"{expression} AS v{number}" for number, expression in enumerate(PROPERTIES))
    columns = [Column(field.name, field.type) for field in SCHEMA]
    compiled = Statement(f"SELECT id, {items} FROM t").compile({"t": columns})
    assert not compiled.problems, compiled.problems
    frame = spark.createDataFrame(pa.Table.from_pylist(given, SCHEMA))
    return prepare(spark, compiled.plan).run({"t": frame}).toArrow().sort_by("id")


@pytest.mark.parametrize(("number", "expression"), list(enumerate(PROPERTIES)), ids=list(PROPERTIES))
def test_same_as_python(given: list[Row], found: pa.Table, number: int, expression: str) -> None:
    assert found[f"v{number}"].to_pylist() == [PROPERTIES[expression](row) for row in given]
