"""Function calls: their meaning, their name in Spark, and which ones a stateless transform cannot have."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from sqlglot import exp

from streamling.spark.unsafe_functions import UNSAFE_FUNCTIONS
from streamling.sql import catalog
from streamling.sql.catalog import KERNEL_PREFIX
from streamling.sql.library import registry
from streamling.sql.library.declaration import Function, UnsupportedSql, call
from streamling.sql.library.unsupported import ALTERNATIVES
from streamling.sql.literals import widen
from streamling.sql.lookups import FUNCTION
from streamling.sql.printing import spark_sql
from streamling.sql.problems import SqlProblem
from streamling.sql.source_text import SourceText

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
    """A function with special syntax, such as ``overlay(… PLACING …)``, as a plain call."""
    if isinstance(node, exp.Trim):
        name = _TRIMS.get(str(node.args.get("position") or "").upper(), "btrim")
        keys: tuple[str, ...] = ("this", "expression")
    elif type(node) in _SYNTAX:
        name, keys = _SYNTAX[type(node)]
    else:
        return None
    return exp.Anonymous(this=name, expressions=[node.args[key] for key in keys if node.args.get(key) is not None])


def rewrite_call(node: exp.Anonymous, text: SourceText, problems: list[SqlProblem]) -> exp.Expr:
    """A call with rewritten arguments, as Spark's. Unknown and impossible calls are problems."""
    name = node.name.lower()
    problem = _refusal(name, node, text)
    if problem is not None:
        problems.append(problem)
        return node
    function = text.functions.get(name) or registry.find(name)
    if function is None:
        # a sum starts as wide as the elements that are added to it
        rewritten = call(name, *map(widen, node.expressions) if name in _FOLDS else node.expressions)
    else:
        try:
            rewritten = _compiled(function, name, node)
        except UnsupportedSql as error:
            problems.append(text.problem(node, str(error), error.remedy))
            return node
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


def _refusal(name: str, node: exp.Expr, text: SourceText) -> SqlProblem | None:
    if name in text.functions:
        return None
    if name in catalog.AGGREGATES:
        message = f"{name}() combines rows, which a stateless sql transform cannot do"
        return text.problem(node, message, "aggregate in the database, or with the postgres_aggregate sink")
    if name in catalog.WINDOWS:
        return text.problem(node, (f"{name}() needs other rows, which a stateless sql transform does not have"))
    if registry.find(name) is not None:
        return None
    if name in catalog.GENERATORS or name == "unnest":
        message = f"{name}() is not allowed here: it returns several rows"
        return text.problem(node, message, "write unnest(list) in the select list")
    if name in ALTERNATIVES:
        return text.problem(node, f"the function {name}() is not supported", f"write {ALTERNATIVES[name]} instead")
    if name in UNSAFE_FUNCTIONS:
        return text.problem(node, f"{name}() is not allowed: it reaches outside the rows")
    if len(node.expressions) > catalog.BEFORE_OPTIONS.get(name, len(node.expressions)):
        return text.problem(node, f"{name}() takes no options: they may name files", "remove them")
    if not _has_plain_schema(name, node.expressions):
        message = f"the schema of {name}() must be written out, as columns with types"
        return text.problem(node, message, "for example 'a INT, b STRING'")
    if name in catalog.SCALARS:
        return None
    close = difflib.get_close_matches(name, [*text.functions, *catalog.SCALARS, *registry.names(), FUNCTION], 1)
    return text.problem(node, f"there is no function {name}()", f"did you mean {close[0]}()?" if close else None)


def _has_plain_schema(name: str, args: Sequence[exp.Expr]) -> bool:
    """Whether the schema argument of a call, if it has one, consists only of names and types."""
    place = catalog.SCHEMA_ARGUMENTS.get(name)
    if place is None or place >= len(args):
        return True
    schema = args[place]
    if isinstance(schema, exp.Literal) and schema.is_string:
        return _PLAIN_SCHEMA.match(schema.name) is not None
    return isinstance(schema, exp.Anonymous) and schema.name.lower() in catalog.SCHEMA_MAKERS
