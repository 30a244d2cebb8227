"""Functions on Arrow arrays: known vectors, and comparisons with Python's own integers and json over random values."""

from __future__ import annotations

import json
import os
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from streamling.sql.kernels import encodings, hashes, json_path, json_text
from streamling.sql.kernels.json_path import steps

SEED = int(os.environ.get("STREAMLING_TEST_SEED", "0")) or random.randrange(2**32)


@pytest.fixture
def chance() -> random.Random:
    print(f"STREAMLING_TEST_SEED={SEED}")
    return random.Random(SEED)


def one(kernel: Any, *values: Any) -> Any:
    return kernel(*(pa.array([value], pa.string() if value is None else None) for value in values))[0].as_py()


@pytest.mark.parametrize(
    ("text", "digest"),
    [
        ("", "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"),
        ("abc", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        ("0x616263", "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"),
        ("transfer(address,uint256)", "a9059cbb2ab09eb219583f4a59a5d0623ade346d962bcd4e46b11da047c9049b"),
        ("Transfer(address,address,uint256)", "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
        ("testing", "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02"),
    ],
)
def test_keccak256(text: str, digest: str) -> None:
    assert one(hashes.keccak256, text) == f"0x{digest}"


@pytest.mark.parametrize(
    ("text", "digest"),
    [("", "99aa06d3014798d86001c324468d497f"), ("hello", "b5e9c1ad071b3e7fc779cfaa5e523818")],
)
def test_xxh3_128(text: str, digest: str) -> None:
    assert one(hashes.xxh3_128, text) == digest


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", ""),
        ("61", "2g"),
        ("626262", "a3gV"),
        ("636363", "aPEr"),
        ("73696d706c792061206c6f6e6720737472696e67", "2cFupjhnEsSn59qHXstmK2ffpLv2"),
        ("00eb15231dfceb60925886b67d065299925915aeb172c06647", "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L"),
        ("516b6fcd0f", "ABnLTmg"),
        ("bf4f89001e670274dd", "3SEo3LWLoPntC"),
        ("572e4794", "3EFU7m"),
        ("ecac89cad93923c02321", "EJDM8drfXA6uyA"),
        ("10c8511e", "Rt5zm"),
        ("00000000000000000000", "1111111111"),
    ],
)
def test_base58(data: str, text: str) -> None:
    assert one(encodings.to_base58, bytes.fromhex(data)) == text
    assert one(encodings.from_base58, text) == bytes.fromhex(data)


@pytest.mark.parametrize("text", [None, "0", "O", "I", "l", "a b", "ż"])
def test_invalid_base58_has_no_bytes(text: str | None) -> None:
    assert one(encodings.from_base58, text) == b""


def test_base58_round_trips(chance: random.Random) -> None:
    values = pa.array([bytes(chance.choices(range(256), k=chance.randrange(40))) for _ in range(300)])
    assert encodings.from_base58(encodings.to_base58(values)) == values


def test_conv_base_is_that_of_python(chance: random.Random) -> None:
    for _ in range(500):
        number, source, target = chance.randrange(-(2**300), 2**300), chance.randrange(2, 37), chance.randrange(2, 37)
        spelled = one(encodings.conv_base, str(number), "10", str(source))
        assert int(spelled, source) == number
        assert int(one(encodings.conv_base, spelled.upper(), str(source), str(target)), target) == number


@pytest.mark.parametrize(
    ("number", "source", "target"),
    [("FG", "16", "10"), ("", "10", "2"), ("1", "1", "2"), ("1", "10", "37"), ("0x1", "16", "10"), ("1_0", "10", "2"),
     (" 1", "10", "2"), ("1", "x", "2"), ("-", "10", "2"), ("٣", "10", "2"), (None, "10", "2")],
)  # fmt: skip
def test_invalid_numbers_are_null(number: str | None, source: str, target: str) -> None:
    assert one(encodings.conv_base, number, source, target) is None


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", ()),
        ("$.a", ("a",)),
        ("$.a.b[0]", ("a", "b", 0)),
        ("$['a b'][\"c\"]", ("a b", "c")),
        ("$[10].ż", (10, "ż")),
        ("lax $.a", ("a",)),
        ("", None),
        ("a", None),
        ("$.", None),
        ("$..a", None),
        ("$.*", None),
        ("$[*]", None),
        ("$[-1]", None),
        ("$[1", None),
        ("$['a", None),
        ("$a", None),
    ],
)
def test_path(path: str, expected: Any) -> None:
    assert steps(path) == expected


def some_json(chance: random.Random, depth: int = 3) -> Any:
    kind = chance.randrange(7 if depth else 5)
    if kind == 5:
        return [some_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    if kind == 6:
        return {some_text(chance): some_json(chance, depth - 1) for _ in range(chance.randrange(4))}
    number = chance.choice([0, -1, 2**70, -(2**63), 17])
    return [
        None,
        chance.random() < 0.5,
        number,
        chance.random() * 10.0 ** chance.randrange(-20, 20),
        some_text(chance),
    ][kind]


def some_text(chance: random.Random) -> str:
    return "".join(chance.choices('ab"\\/\n\t\x00ż😀 {}[]:,', k=chance.randrange(6)))


def test_json_is_that_of_python(chance: random.Random) -> None:
    values = [some_json(chance) for _ in range(500)]
    texts = pa.array([json.dumps(value, indent=chance.choice([None, 2])) for value in values])
    for value, compact in zip(values, json_text.compact(texts).to_pylist(), strict=True):
        assert json.loads(compact) == value
        assert compact == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert json_text.is_json(texts, pa.array(["VALUE"] * len(texts))).to_pylist() == [True] * len(texts)
    for value, quoted in zip(values, json_text.quote(texts).to_pylist(), strict=True):
        assert json.loads(json.loads(quoted)) == value
        assert quoted.isascii()
    assert json_text.unquote(json_text.quote(texts)) == texts


def walk(value: Any, path: str = "$") -> Any:
    """Every value inside with its path."""
    yield path, value
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, part in parts:
        if isinstance(step, int) or ("'" not in step and "]" not in step):
            yield from walk(part, f"{path}[{step}]" if isinstance(step, int) else f"{path}['{step}']")


def test_values_at_a_path_are_those_that_python_finds(chance: random.Random) -> None:
    for _ in range(300):
        text = json.dumps(some_json(chance))
        whole = json.loads(text, parse_float=Decimal, parse_int=Decimal)
        for path, value in walk(whole):
            found, queried = one(json_path.value, text, path), one(json_path.query, text, path, "WITHOUT ARRAY")
            assert one(json_path.exists, text, path) == (value is not None)
            if isinstance(value, dict | list):
                assert found is None
                assert json.loads(queried, parse_float=Decimal, parse_int=Decimal) == value
            else:
                assert queried is None
                expected = (
                    {True: "true", False: "false", None: None}[value] if isinstance(value, bool | None) else value
                )
                assert (Decimal(found) if isinstance(value, Decimal) else found) == expected


@pytest.mark.parametrize("text", ["", " ", "{", "[1,]", "NaN", "{'a':1}", "01", "nul", '"a', "1 2", "[" * 100_000])
def test_invalid_json_is_null(text: str) -> None:
    assert one(json_text.compact, text) is None
    assert one(json_text.is_json, text, "VALUE") is False
    assert one(json_path.value, text, "$") is None
    assert one(json_path.exists, text, "$") is None


@pytest.mark.parametrize(
    ("text", "wrapper", "expected"),
    [
        ("[1]", "WITHOUT ARRAY", "[1]"),
        ("[1]", "WITH CONDITIONAL ARRAY", "[1]"),
        ("[1]", "WITH UNCONDITIONAL ARRAY", "[[1]]"),
        ("1.50", "WITHOUT ARRAY", None),
        ("1.50", "WITH CONDITIONAL ARRAY", "[1.50]"),
        ("null", "WITH UNCONDITIONAL ARRAY", None),
    ],
)
def test_wrapper(text: str, wrapper: str, expected: str | None) -> None:
    assert one(json_path.query, text, "$", wrapper) == expected


@pytest.mark.parametrize(
    ("text", "keys", "expected"),
    [
        ('[{"a": true}, {"a": null}, {}]', ["a"], "[(true), (null), (null)]"),
        ('[{"a": "x", "b": 10.50}]', ["b", "a"], "[(10.50, 'x')]"),
        ('[{"a": "it\'s \\\\"}]', ["a"], "[('it\\'s \\\\')]"),
        ("[]", ["a"], "[]"),
        (None, ["a"], "[]"),
        ("{}", ["a"], None),
        ("[", ["a"], None),
    ],
)
def test_clickhouse_tuples(text: str | None, keys: list[str], expected: str | None) -> None:
    assert one(json_text.clickhouse_tuples, text, keys) == expected
