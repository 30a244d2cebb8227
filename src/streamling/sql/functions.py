"""Function calls: their meaning, their name in Spark, and which ones a stateless transform cannot have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from sqlglot import exp

from streamling.spark.unsafe_functions import UNSAFE_FUNCTIONS
from streamling.sql import catalog
from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.fragments import UnsupportedSql, call, widen
from streamling.sql.library import registry
from streamling.sql.library.declaration import Function
from streamling.sql.printing import spark_sql
from streamling.sql.references import LOOKUP_FUNCTION

#: functions with special syntax → the equivalent call
_SYNTAX: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Substring: ("substr", ("this", "start", "length")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.StrPosition: ("strpos", ("this", "substr")),
}
_FOLDS = ("aggregate", "reduce")
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim"}
#: start of a type or a list of columns; JSON starts with a brace or a quote
_PLAIN_SCHEMA = re.compile(r"\s*[\w`]")


def as_call(node: exp.Expr) -> exp.Anonymous | None:
    """Return a function with special syntax, such as ``overlay(… PLACING …)``, as a plain call."""
    if isinstance(node, exp.Trim):
        name = _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim")
        keys: tuple[str, ...] = ("this", "expression")
    elif type(node) in _SYNTAX:
        name, keys = _SYNTAX[type(node)]
    else:
        return None
    return exp.Anonymous(this=name, expressions=[node.args[key] for key in keys if node.args.get(key) is not None])


def rewrite_call(node: exp.Anonymous, plugins: Mapping[str, Function]) -> exp.Expr:
    """Return a call with rewritten arguments, as Spark's. Raises `UnsupportedSql` for unknown and impossible calls."""
    name = node.name.lower()
    if name not in plugins:
        _refuse(name, node, plugins)
    function = plugins.get(name) or registry.find(name)
    if function is not None:
        rewritten = _compiled(function, name, node)
    else:
        # a sum starts as wide as the elements that are added to it
        rewritten = call(name, *map(widen, node.expressions) if name in _FOLDS else node.expressions)
    rewritten.meta.update({key: value for key, value in node.meta.items() if key != "arrow"})
    return rewritten


def _compiled(function: Function, name: str, node: exp.Anonymous) -> exp.Expr:
    args = node.expressions
    compiled = function.compile(args) if function.fits(len(args)) else None
    if compiled is None:
        if name in catalog.SCALARS:  # Spark has a function with this name and other arguments
            return call(name, *args)
        shown = function.signature.replace(function.name, name, 1)
        raise UnsupportedSql(f"{name}() does not take {len(args)} argument(s)", f"write {shown}")
    if function.kernels and KERNEL_PREFIX in spark_sql(compiled) and node.find_ancestor(exp.Lambda):
        raise UnsupportedSql(f"{name}() is not allowed inside a lambda", "unnest the list first")
    return compiled


def _refuse(name: str, node: exp.Expr, plugins: Mapping[str, Function]) -> None:
    if name in catalog.AGGREGATES:
        message = f"{name}() combines rows, which a stateless sql transform cannot do"
        raise UnsupportedSql(message, "aggregate in the database, or with the postgres_aggregate sink")
    if name in catalog.WINDOWS:
        raise UnsupportedSql(f"{name}() needs other rows, which a stateless sql transform does not have")
    if registry.find(name) is not None:
        return
    if name in catalog.GENERATORS or name == "unnest":
        message = f"{name}() is not allowed here: it returns several rows"
        raise UnsupportedSql(message, "write unnest(list) in the select list")
    if name in ALTERNATIVES:
        raise UnsupportedSql(f"the function {name}() is not supported", f"write {ALTERNATIVES[name]} instead")
    if name in UNSAFE_FUNCTIONS:
        raise UnsupportedSql(f"{name}() is not allowed: it reaches outside the rows")
    if len(node.expressions) > catalog.BEFORE_OPTIONS.get(name, len(node.expressions)):
        raise UnsupportedSql(f"{name}() takes no options: they may name files", "remove them")
    if not _has_plain_schema(name, node.expressions):
        message = f"the schema of {name}() must be written out, as columns with types"
        raise UnsupportedSql(message, "for example 'a INT, b STRING'")
    if name not in catalog.SCALARS:
        close = difflib.get_close_matches(name, [*plugins, *catalog.SCALARS, *registry.names(), LOOKUP_FUNCTION], 1)
        raise UnsupportedSql(f"there is no function {name}()", f"did you mean {close[0]}()?" if close else None)


def _has_plain_schema(name: str, args: Sequence[exp.Expr]) -> bool:
    """Return whether the schema argument of a call, if it has one, consists only of names and types."""
    place = catalog.SCHEMA_ARGUMENTS.get(name)
    if place is None or place >= len(args):
        return True
    schema = args[place]
    if isinstance(schema, exp.Literal) and schema.is_string:
        return _PLAIN_SCHEMA.match(schema.name) is not None
    return isinstance(schema, exp.Anonymous) and schema.name.lower() in catalog.SCHEMA_MAKERS


ALTERNATIVES: dict[str, str] = {
    "arrow_field": "typeof(x)",
    "arrow_metadata": "typeof(x)",
    "file_row_index": "a column of the file",
    "input_file_name": "a column of the file",
    "union_extract": "CAST(x AS TEXT)",
    "union_tag": "CAST(x AS TEXT)",
}
