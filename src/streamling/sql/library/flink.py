"""Text functions with Flink's semantics, which the Rust implementation adopted."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, UnsupportedSql, fill, literal_text
from streamling.sql.library.declaration import Function

_TEXT, _LONG, _TEXTS = pa.string(), pa.int64(), pa.list_(pa.string())
_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
_HITS = "filter(sequence(1, greatest(length({0}), 1)), __i -> substring({0}, __i, length({1})) = {1} AND "
_ONWARDS = f"try_element_at({_HITS}__i >= {{2}}), greatest({{3}}, 1))"
_BACK = f"try_element_at({_HITS}__i <= length({{0}}) + {{2}} + 1), least(-{{3}}, -1))"
_INSTR = (
    "if({0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {3} IS NULL OR {3} < 1, NULL, CAST(coalesce(CASE WHEN {2} > 0"
    f" THEN {_ONWARDS} WHEN {{2}} < 0 THEN {_BACK} END, 0) AS BIGINT))"
)
_SPLIT = "if({1} = '', if({0} = '', array(''), split({0}, '')), split({0}, concat('\\\\Q', {1}, '\\\\E'), -1))"
_INDEX = "if({2} < 0, NULL, get(if({1} = '', array({0}), split({0}, concat('\\\\Q', {1}, '\\\\E'), -1)), {2}))"


def _parse_url(args: Args) -> exp.Expr:
    part = literal_text(args[1])
    if part is not None and part.upper() not in _PARTS:
        return fill("CAST(NULL AS STRING)", [])
    name = exp.Literal.string(part.upper()) if part is not None else fill("upper({0})", [args[1]])
    return fill("try_parse_url({*})", [args[0], name, *args[2:]])


def _elt(args: Args) -> exp.Expr:
    if len(args) < 2:
        raise UnsupportedSql("elt() has no values to choose from", "write elt(number, first, second, …)")
    values = [fill("CAST({0} AS STRING)", [arg]) for arg in args[1:]]
    return fill("if({0} > 0, try_element_at({1}, {0}), NULL)", [args[0], fill("array({*})", values)])


FUNCTIONS = (
    Function(
        "bin",
        "long",
        "if({0} < 0, concat('-', bin(coalesce(try_subtract(0L, {0}), {0}))), bin({0}))",
        "The binary digits of a number, with its sign.",
        "bin(42) = '101010'\nbin(-2) = '-10'",
        _TEXT,
    ),
    Function(
        "elt",
        "int any any*",
        lambda args: _elt([args[0], *args[1:]]),
        "The n-th of the values, as text; NULL if there is none.",
        "elt(2, 'a', 'b') = 'b'",
        _TEXT,
    ),
    Function(
        "instr",
        "text text int? int?",
        ("CAST(instr({0}, {1}) AS BIGINT)", _INSTR.replace("{3}", "1"), _INSTR),
        (
            "Position of the n-th occurrence of a text in another, starting at a position (backwards if "
            "negative); 0 if there is none."
        ),
        "instr('foobarbar', 'bar') = 4\ninstr('foobarbar', 'bar', 1, 2) = 7\ninstr('foobarbar', 'bar', -1) = 7",
        _LONG,
    ),
    Function(
        "locate",
        "text text int?",
        (
            "CAST(instr({1}, {0}) AS BIGINT)",
            "if({2} < 1, if({0} IS NULL OR {1} IS NULL, NULL, 0L), CAST(locate({0}, {1}, {2}) AS BIGINT))",
        ),
        "Position of the first text in the second, starting at a position; 0 if it is not found.",
        "locate('bar', 'foobarbar', 5) = 7",
        _LONG,
    ),
    Function(
        "parse_url",
        "text name text?",
        _parse_url,
        ("HOST, PATH, QUERY (or one key of it), REF, PROTOCOL, FILE, AUTHORITY or USERINFO of a URL, or NULL."),
        "parse_url('http://u@e.com/p?q=1#f', 'HOST') = 'e.com'\nparse_url('http://e.com/p?q=1', 'query', 'q') = '1'",
        _TEXT,
    ),
    Function(
        "split",
        "text text",
        _SPLIT,
        "The parts between separators; the characters if the separator is empty.",
        "split(',a,,', ',') = ['', 'a', '', '']",
        _TEXTS,
    ),
    Function(
        "split_index",
        "text text int",
        _INDEX,
        "The n-th part, from 0; NULL if there is none.",
        "split_index('a,b', ',', 1) = 'b'",
        _TEXT,
    ),
    Function(
        "translate",
        "text text text",
        "if({1} IS NULL, {0}, translate({0}, {1}, coalesce({2}, '')))",
        ("Replaces characters of the second text by those of the third; characters without a counterpart are removed."),
        "translate('cat', 'at', 'o') = 'co'",
        _TEXT,
        "translate3",
        differs=(
            "as in the Rust implementation, NULL as characters changes nothing and NULL as replacements removes them"
        ),
    ),
    Function(
        "url_decode",
        "text",
        "try_url_decode({0})",
        "Decodes URL-encoded text; NULL if it is invalid.",
        "url_decode('foo+bar') = 'foo bar'",
        _TEXT,
    ),
    Function(
        "url_encode",
        "text",
        "url_encode({0})",
        "Encodes text for a URL.",
        "url_encode('a+b/c') = 'a%2Bb%2Fc'",
        _TEXT,
    ),
)
