"""Browser functions in scripts, compared with the results of another implementation
(`tests/corpus/scripts/web.json`)."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.transforms.script.program import prelude_for
from tests.paths import TESTS

CORPUS = json.loads((TESTS / "corpus/scripts/web.json").read_text(encoding="utf-8"))
NAMES = ["URL", "URLSearchParams", "TextEncoder", "TextDecoder", "structuredClone", "atob", "btoa", "DOMException"]
EVALUATED = (
    f"// {' '.join(NAMES)}\n"
    """row => {
      try { return { made: JSON.stringify((0, eval)("(" + row.code + ")")) ?? null } }
      catch (error) { return { made: "throws " + error.name } }
    }"""
)


def test_results_are_those_of_browsers(scripts):
    cases = [*CORPUS["cases"], *CORPUS["by_standard"]]
    schema = {"made": pa.string()}
    made = scripts.rows(EVALUATED, [{"code": code} for code, _ in cases], schema)
    different = [
        (code, row["made"], expected)
        for (code, expected), row in zip(cases, made, strict=True)
        if row["made"] != expected
    ]
    assert different == []
    assert len(cases) > 600


def test_a_script_gets_only_the_functions_it_mentions(scripts):
    assert prelude_for("row => ({ ...row, curl: row.url })") == ""
    text = "row => ({ made: [typeof URL, typeof globalThis['atob' + ''], typeof globalThis['b' + 'toa']].join() })"
    assert scripts.rows(text, [{"id": 1}], {"made": pa.string()}) == [{"made": "function,function,function"}]
    text = "row => ({ made: typeof globalThis['U' + 'RL'] })"
    assert scripts.rows(text, [{"id": 1}], {"made": pa.string()}) == [{"made": "undefined"}]


def test_a_numbers_digits_survive_a_clone(scripts):
    from decimal import Decimal

    rows = [{"d": Decimal("12345678901234567890.123"), "l": [Decimal("12345678901234567890.123")]}]
    assert scripts.rows("row => structuredClone(row)", rows) == rows


def test_their_errors_look_like_errors_of_the_script(scripts):
    with pytest.raises(StreamlingError, match="the script failed in line 2: TypeError: Invalid URL: 'nowhere'"):
        scripts.rows("row => {\n  const url = new URL('nowhere')\n  return row\n}", [{"id": 1}])


def test_a_url_and_its_parts_in_a_row(scripts):
    text = """function process(row) {
      const url = new URL(row.link, "https://shop.example/a/")
      url.searchParams.set("seen", "yes & no")
      return { link: String(url), host: url.hostname, page: Number(url.searchParams.get("page")) }
    }"""
    schema = {"link": pa.string(), "host": pa.string(), "page": pa.int64()}
    assert scripts.rows(text, [{"link": "../list?page=3#top"}], schema) == [
        {"link": "https://shop.example/list?page=3&seen=yes+%26+no#top", "host": "shop.example", "page": 3}
    ]
