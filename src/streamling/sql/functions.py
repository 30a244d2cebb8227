"""Calls: which functions there are, what they are called in Spark, and which a stateless transform cannot have."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from streamling.sql import catalog
from streamling.sql.inference import TIMESTAMP_UTC, common, type_of
from streamling.sql.literals import widen
from streamling.sql.places import SourceText
from streamling.sql.problems import SqlProblem

Args = list[exp.Expr]


def call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


#: DataFusion's name → Spark's, where arguments and results are the same
RENAMED: dict[str, str] = {
    "today": "current_date",
    "make_array": "array",
    "make_list": "array",
    "starts_with": "startswith",
    "ends_with": "endswith",
    "array_element": "try_element_at",
    "array_extract": "try_element_at",
    "list_element": "try_element_at",
    "list_extract": "try_element_at",
    "array_has": "array_contains",
    "list_has": "array_contains",
    "list_contains": "array_contains",
    "list_append": "array_append",
    "array_push_back": "array_append",
    "list_distinct": "array_distinct",
    "to_timestamp_seconds": "timestamp_seconds",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "uuid": "uuid",
}

_string = pa.string()
_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp_utc"), TIMESTAMP_UTC),
    **dict.fromkeys(("current_date", "curdate", "to_date", "make_date"), pa.date32()),
    "current_time": pa.time64("us"),
    **dict.fromkeys(
        (
            "upper lower ucase lcase trim btrim ltrim rtrim lpad rpad replace repeat substr substring left right"
            " concat_ws initcap md5 sha1 sha2 translate to_json get_json_object hex base64 uuid regexp_replace"
            " regexp_extract split_part format_string chr date_format"
        ).split(),
        _string,
    ),
    **dict.fromkeys(
        "sqrt exp ln log log10 log2 pow power sin cos tan radians degrees random rand".split(), pa.float64()
    ),
    **dict.fromkeys(
        "length char_length character_length octet_length ascii instr strpos levenshtein".split(), pa.int32()
    ),
    **dict.fromkeys(
        "startswith endswith contains array_contains isnull isnotnull isnan regexp_like".split(), pa.bool_()
    ),
}


def _concat(args: Args) -> exp.Expr:
    """DataFusion leaves NULLs out of ``concat``; Spark's is NULL as soon as one part is."""
    if any(not pa.types.is_string(type_of(arg) or pa.string()) for arg in args if type_of(arg) is not None):
        return call("concat", *args)
    return call("concat", *(call("coalesce", arg, exp.Literal.string("")) for arg in args))


def _coalesce(args: Args) -> exp.Expr:
    return call("coalesce", *(widen(arg) for arg in args))


_REWRITTEN: dict[str, Callable[[Args], exp.Expr]] = {"concat": _concat, "coalesce": _coalesce}
_LIKE_ARGUMENTS = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least"})


def rewrite_call(node: exp.Anonymous, text: SourceText, problems: list[SqlProblem]) -> exp.Expr:
    """A call whose arguments are done, as Spark's. What there is not, or cannot be, is a problem."""
    name = node.name.lower()
    problem = _refusal(name, node, text)
    if problem is not None:
        problems.append(problem)
        return node
    args = node.expressions
    spark_name = RENAMED.get(name, name)
    rewritten = _REWRITTEN[name](args) if name in _REWRITTEN else call(spark_name, *args)
    rewritten.meta.update(node.meta)
    rewritten.meta["arrow"] = (
        common([type_of(arg) for arg in args]) if name in _LIKE_ARGUMENTS else _TYPES.get(spark_name)
    )
    return rewritten


def _refusal(name: str, node: exp.Expr, text: SourceText) -> SqlProblem | None:
    if name in catalog.AGGREGATES:
        message = f"{name}() combines rows, which a stateless sql transform cannot"
        return text.problem(node, message, "aggregate in the database, or with the postgres_aggregate sink")
    if name in catalog.WINDOWS:
        return text.problem(node, f"{name}() looks at other rows, which a stateless sql transform cannot")
    if name in catalog.GENERATORS or name == "unnest":
        message = f"{name}() cannot stand here: it makes several rows of one"
        return text.problem(node, message, "write unnest(list) in the select list")
    if name in catalog.FORBIDDEN:
        return text.problem(node, f"{name}() is not allowed: it reaches outside of the rows")
    if name in catalog.LATER:
        return text.problem(node, f"this version does not have the function {name}() yet")
    if name in catalog.SCALARS or name in RENAMED:
        return None
    known = [*catalog.SCALARS, *RENAMED]
    close = difflib.get_close_matches(name, known, 1)
    return text.problem(
        node, f"there is no function {name}()", f"did you mean {close[0]}()?" if close else None
    )
