"""Calls: which functions there are, what they are called in Spark, and which a stateless transform cannot have."""

from __future__ import annotations

import difflib
from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from streamling.sql import catalog, datafusion, typenames
from streamling.sql.datafusion import words
from streamling.sql.dateformats import java_format
from streamling.sql.inference import TIMESTAMP_UTC, common, group_type, type_of, unified
from streamling.sql.literals import widen
from streamling.sql.places import SourceText
from streamling.sql.problems import SqlProblem

Args = list[exp.Expr]


def call(name: str, *args: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(args))


_string = pa.string()
_TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(("now", "current_timestamp", "localtimestamp_utc"), TIMESTAMP_UTC),
    **dict.fromkeys(("current_date", "curdate", "to_date", "make_date"), pa.date32()),
    "current_time": pa.time64("us"),
    **dict.fromkeys(
        words(
            "upper lower ucase lcase trim btrim ltrim rtrim lpad rpad replace repeat substr substring left right"
            " concat_ws initcap md5 sha1 sha2 translate to_json get_json_object hex base64 uuid regexp_replace"
            " regexp_extract split_part format_string chr date_format"
        ),
        _string,
    ),
    **dict.fromkeys(
        words("sqrt exp ln log log10 log2 pow power sin cos tan radians degrees random rand"), pa.float64()
    ),
    **dict.fromkeys(
        words("length char_length character_length octet_length ascii instr strpos levenshtein"), pa.int32()
    ),
    **dict.fromkeys(
        words("startswith endswith contains array_contains isnull isnotnull isnan regexp_like"), pa.bool_()
    ),
}


def _concat(args: Args) -> exp.Expr:
    """DataFusion leaves NULLs out of ``concat``; Spark's is NULL as soon as one part is. Lists are joined by both."""
    types = [type_of(arg) for arg in args]
    if any(type_ is not None and (pa.types.is_list(type_) or pa.types.is_binary(type_)) for type_ in types):
        return call("concat", *args)
    joined = call("concat", *(_filled("coalesce(CAST({0} AS STRING), '')", [arg]) for arg in args))
    joined.meta["arrow"] = pa.string()
    return joined


#: their result has the common type of their arguments
_LIKE_ARGUMENTS = frozenset({"coalesce", "ifnull", "nvl", "greatest", "least"})


def _widened(name: str) -> Callable[[Args], exp.Expr]:
    return lambda args: call(name, *(widen(unified(arg, args)) for arg in args))


def _date_trunc(args: Args) -> exp.Expr | None:
    """A time without a zone stays one; Spark's would come out in UTC."""
    type_ = type_of(args[1]) if len(args) == 2 else None
    if type_ is None or not (pa.types.is_date(type_) or type_ == pa.timestamp("us")):
        return None
    truncated = _filled("CAST(date_trunc({0}, {1}) AS TIMESTAMP_NTZ)", args)
    truncated.meta["arrow"] = pa.timestamp("us")
    return truncated


def _to_timestamp(args: Args) -> exp.Expr:
    """Numbers count seconds, text is read; either way there is no zone."""
    type_ = type_of(args[0]) if args else None
    if type_ is not None and (pa.types.is_integer(type_) or pa.types.is_floating(type_)):
        return _filled("CAST(timestamp_seconds({0}) AS TIMESTAMP_NTZ)", args)
    if len(args) == 1:
        return _filled("CAST({0} AS TIMESTAMP_NTZ)", args)
    return _formatted("to_timestamp_ntz")(args) or call("to_timestamp_ntz", *args)


def _formatted(name: str) -> Callable[[Args], exp.Expr | None]:
    """A call with a date format as its second argument."""

    def rewrite(args: Args) -> exp.Expr | None:
        if len(args) != 2 or not isinstance(args[1], exp.Literal):
            return None
        spelled = java_format(args[1].name)
        return None if spelled is None else call(name, args[0], exp.Literal.string(spelled))

    return rewrite


def _to_char(args: Args) -> exp.Expr | None:
    """Times by a format; numbers stay with Spark's own ``to_char``."""
    type_ = type_of(args[0]) if args else None
    return None if type_ is None or not pa.types.is_temporal(type_) else _formatted("date_format")(args)


def _struct(args: Args) -> exp.Expr:
    """Unnamed fields are c0, c1, …; ``struct(x AS a)`` names its own."""
    named = [
        part
        for number, arg in enumerate(args)
        for part in (
            exp.Literal.string(arg.alias if isinstance(arg, exp.Alias) else f"c{number}"),
            widen(arg.this if isinstance(arg, exp.Alias) else arg),
        )
    ]
    return call("named_struct", *named)


def _arrow_cast(args: Args, function: str = "CAST") -> exp.Expr | None:
    if len(args) != 2 or not isinstance(args[1], exp.Literal):
        return None
    known = typenames.arrow_name(args[1].name)
    if known is None:
        return None
    cast = _filled(function + "({0} AS " + known[0] + ")", args)
    cast.meta["arrow"] = known[1]
    return cast


def _encode(args: Args) -> exp.Expr | None:
    encoding = args[1].name.lower() if len(args) == 2 and isinstance(args[1], exp.Literal) else ""
    templates = {"hex": "lower(hex({0}))", "base64": "rtrim('=', base64(CAST({0} AS BINARY)))"}
    return _filled(templates[encoding], args) if encoding in templates else None


def _decode(args: Args) -> exp.Expr | None:
    encoding = args[1].name.lower() if len(args) == 2 and isinstance(args[1], exp.Literal) else ""
    templates = {"hex": "unhex({0})", "base64": "unbase64({0})"}
    return _filled(templates[encoding], args) if encoding in templates else None


def _trunc(args: Args) -> exp.Expr | None:
    """Of numbers; ``trunc(date, 'MM')`` is Spark's."""
    if len(args) == 1:
        return _filled("(sign({0}) * floor(abs({0})))", args)
    if len(args) != 2 or (isinstance(args[1], exp.Literal) and args[1].is_string):
        return None
    return _filled("(sign({0}) * floor(abs({0}) * pow(10, {1})) / pow(10, {1}))", args)


def _map(args: Args) -> exp.Expr | None:
    """``map(keys, values)`` over two lists is DataFusion's; Spark's takes keys and values in turn."""
    lists = len(args) == 2 and all(pa.types.is_list(type_of(arg) or pa.null()) for arg in args)
    return call("map_from_arrays", *args) if lists else None


#: calls whose rewriting looks at the arguments; None leaves the call as it is
_REWRITTEN: dict[str, Callable[[Args], exp.Expr | None]] = {
    "concat": _concat,
    **{name: _widened(name) for name in _LIKE_ARGUMENTS},
    "date_trunc": _date_trunc,
    "datetrunc": _date_trunc,
    "to_timestamp": _to_timestamp,
    "to_date": _formatted("to_date"),
    "date_format": _formatted("date_format"),
    "to_char": _to_char,
    "struct": _struct,
    "encode": _encode,
    "decode": _decode,
    "map": _map,
    "trunc": _trunc,
    "arrow_cast": _arrow_cast,
    "arrow_try_cast": lambda args: _arrow_cast(args, "TRY_CAST"),
    "date_part": lambda args: part_of_date(args[0].name, args[1]) if len(args) == 2 else None,
    "datepart": lambda args: part_of_date(args[0].name, args[1]) if len(args) == 2 else None,
}


def part_of_date(part: str, value: exp.Expr) -> exp.Expr | None:
    """Parts that DataFusion counts differently: weekdays from Sunday = 0, whole seconds, the epoch."""
    template = {
        "dow": "(dayofweek({0}) - 1)",
        "isodow": "weekday({0})",
        "second": "CAST(second({0}) AS INT)",
        "millisecond": "CAST(date_part('second', {0}) * 1000 AS INT)",
        "microsecond": "CAST(date_part('second', {0}) * 1000000 AS INT)",
        "epoch": "(unix_micros(CAST({0} AS TIMESTAMP_LTZ)) / 1000000D)",
    }.get(part.lower())
    if template is None:
        return None
    found = _filled(template, [value])
    found.meta["arrow"] = pa.float64() if part.lower() == "epoch" else pa.int32()
    return found


def rewrite_call(node: exp.Anonymous, text: SourceText, problems: list[SqlProblem]) -> exp.Expr:
    """A call whose arguments are done, as Spark's. What there is not, or cannot be, is a problem."""
    name, args = node.name.lower(), node.expressions
    problem = _refusal(name, node, text)
    if problem is not None:
        problems.append(problem)
        return node
    rewritten = (_REWRITTEN[name](args) if name in _REWRITTEN else None) or _from_template(name, args)
    if rewritten is None and name in datafusion.TEMPLATES and name not in catalog.SCALARS:
        problems.append(text.problem(node, f"{name}() does not take {len(args)} argument(s)"))
        return node
    rewritten = rewritten or call(name, *args)
    rewritten.meta.update({key: value for key, value in node.meta.items() if key != "arrow"})
    rewritten.meta.setdefault("arrow", _result(name, args))
    return rewritten


def _result(name: str, args: Args) -> pa.DataType | None:
    if name in _LIKE_ARGUMENTS:
        return group_type(args)
    if name in ("array", "make_array", "make_list"):
        element = common([type_of(arg) for arg in args])
        return None if element is None or element == pa.int64() else pa.list_(element)
    canonical = f"array_{name[5:]}" if name.startswith("list_") else name
    return datafusion.TYPES.get(canonical) or _TYPES.get(name)


def _from_template(name: str, args: Args) -> exp.Expr | None:
    """The call by its template; None when there is none for this number of arguments."""
    template = datafusion.TEMPLATES.get(name, "")
    if isinstance(template, list):
        template = template[len(args) - 1] if 0 < len(args) <= len(template) else ""
    takes = sum(f"{{{number}}}" in template for number in range(4))
    return _filled(template, args) if template and ("{*}" in template or takes == len(args)) else None


def _filled(template: str, args: Args) -> exp.Expr:
    spelled = [arg.sql("spark", comments=False) for arg in args]
    text = template.replace("{*}", ", ".join(spelled))
    for number, argument in enumerate(spelled):
        text = text.replace(f"{{{number}}}", argument)
    return exp.Var(this=text)


def _refusal(name: str, node: exp.Expr, text: SourceText) -> SqlProblem | None:
    if name in catalog.AGGREGATES:
        message = f"{name}() combines rows, which a stateless sql transform cannot"
        return text.problem(node, message, "aggregate in the database, or with the postgres_aggregate sink")
    if name in catalog.WINDOWS:
        return text.problem(node, f"{name}() looks at other rows, which a stateless sql transform cannot")
    if name in datafusion.TEMPLATES or name in _REWRITTEN:
        return None
    if name in catalog.GENERATORS or name == "unnest":
        message = f"{name}() cannot stand here: it makes several rows of one"
        return text.problem(node, message, "write unnest(list) in the select list")
    if name in catalog.FORBIDDEN:
        return text.problem(node, f"{name}() is not allowed: it reaches outside of the rows")
    if name in catalog.LATER:
        return text.problem(node, f"this version does not have the function {name}() yet")
    canonical = f"array_{name[5:]}" if name.startswith("list_") else name
    if canonical in datafusion.NOT_IN_SPARK:
        instead = datafusion.NOT_IN_SPARK[canonical]
        return text.problem(node, f"Spark has no function {name}()", f"write {instead} instead")
    if name in catalog.SCALARS:
        return None
    close = difflib.get_close_matches(name, [*catalog.SCALARS, *datafusion.TEMPLATES], 1)
    return text.problem(node, f"there is no function {name}()", f"did you mean {close[0]}()?" if close else None)
