"""Operators that Spark lacks or interprets differently: shifts, subscripts, ``||`` of lists, LIKE."""

from __future__ import annotations

import re

import pyarrow as pa
from sqlglot import exp

from streamling.sql.casts import TIME_OF_DAY
from streamling.sql.fragments import UnsupportedSql, call, fill, literal_text, type_of
from streamling.sql.library.regex import java_pattern
from streamling.sql.library.registry import find

_INT = range(-(2**31), 2**31)
#: letters that are equal to others without regard to case although their lower case differs → what they are compared
#: as. The lower case of İ has two letters; it is only equal to itself, so it is compared as no letter at all
_SAME_CASE = ("İΣςµſͅϐϑϕϖϰϱϵᲀᲁᲂᲃᲄᲅᲆᲇᲈẛ\u1fbe", "\ufdd0σσμsιβθφπκρεвдосттъѣꙋṡι")


def rewrite_operator(node: exp.Expr) -> exp.Expr | None:
    """Return the rewritten form of a node whose parts are rewritten; None if it is not one of these operators."""
    if isinstance(node, exp.BitwiseLeftShift | exp.BitwiseRightShift):
        return _shift(node)
    if isinstance(node, exp.Bracket):
        return _subscript(node)
    if isinstance(node, exp.DPipe) and any(_is_list(side) for side in (node.this, node.expression)):
        return _joined_lists(node)
    if isinstance(node, exp.Add | exp.Sub) and "span" in node.expression.meta:
        return _date_and_interval(node)
    if isinstance(node, exp.RegexpLike | exp.RegexpILike):
        flags = [exp.Literal.string("i")] if isinstance(node, exp.RegexpILike) else []
        made = exp.RegexpLike(this=node.this, expression=java_pattern(node.expression, *flags))
        made.meta.update({**node.meta, "arrow": pa.bool_()})
        return made
    if isinstance(node, exp.Like | exp.ILike) and not isinstance(node.parent, exp.Escape):
        _like(node, "\\")
    elif isinstance(node, exp.Escape):
        _like(node.this, literal_text(node.expression) or "")
    return None


def _shift(node: exp.Binary) -> exp.Expr:
    """Shift 64 bits by the last six bits of the count, whatever the types."""
    name = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
    return fill(f"{name}(CAST({{0}} AS BIGINT), CAST({{1}} & 63 AS INT))", [node.this, node.expression], pa.int64())


def _date_and_interval(node: exp.Binary) -> exp.Expr | None:
    """Keep a date as a date: only whole days of an interval count; Spark returns a timestamp. A time of day wraps at
    midnight; Spark fails."""
    span = node.expression.meta["span"]
    sign = "+" if isinstance(node, exp.Add) else "-"
    if pa.types.is_time(type_of(node.this) or pa.null()):
        moment = f"TIMESTAMP_NTZ'1970-01-01 00:00:00' + ({{0}} - TIME'00:00:00') {sign} {span.part_of_day().spark()}"
        return fill(TIME_OF_DAY, [fill(moment, [node.this])], type_of(node.this))
    if type_of(node.this) != pa.date32():
        return None
    return fill(f"({{0}} {sign} {span.whole_days().spark()})", [node.this], pa.date32())


def _subscript(node: exp.Bracket) -> exp.Expr | None:
    """Translate ``x[i]``: lists start at 1 (at -1 from the end), a missing element is NULL; ``s['f']`` is a field."""
    if len(node.expressions) != 1:
        raise UnsupportedSql("there is more than one subscript", "write x[1][2]")
    container, [index] = type_of(node.this), node.expressions
    if isinstance(index, exp.Slice):
        return _slice(node.this, index)
    if container is not None and pa.types.is_map(container):
        element = call("try_element_at", node.this, index)
        element.meta["arrow"] = container.item_type
        return element
    if isinstance(index, exp.Literal) and index.is_string:
        return None
    # Spark takes an INT and fails at 0
    element = fill("try_element_at({0}, nullif(try_cast({1} AS INT), 0))", [node.this, index])
    if isinstance(index, exp.Literal) and index.name.isdigit() and 0 < int(index.name) in _INT:
        element = call("try_element_at", node.this, index)
    if container is not None and pa.types.is_list(container):
        element.meta["arrow"] = container.value_type
    return element


def _slice(array: exp.Expr, bounds: exp.Slice) -> exp.Expr:
    ends = [bounds.this or exp.Literal.number(1), bounds.expression or exp.Neg(this=exp.Literal.number(1))]
    step = bounds.args.get("step")
    return _library("array_slice", array, *ends, *([step] if step else []))


def _joined_lists(node: exp.DPipe) -> exp.Expr:
    if all(_is_list(side) for side in (node.this, node.expression)):
        return _library("array_concat", node.this, node.expression)
    return _library("array_append" if _is_list(node.this) else "array_prepend", node.this, node.expression)


def _library(name: str, *args: exp.Expr) -> exp.Expr:
    function = find(name)
    made = function.compile(list(args)) if function is not None else None
    assert made is not None
    return made


def _is_list(node: exp.Expr) -> bool:
    return bool(pa.types.is_list(type_of(node) or pa.null()))


def _like(node: exp.Binary, escape: str) -> None:
    if isinstance(node, exp.ILike) and not isinstance(node.expression, exp.Any | exp.All):
        node.set("this", _same_case(node.this))
        node.set("expression", _same_case(node.expression))
    node.set("expression", _like_pattern(node.expression, escape))


def _same_case(text: exp.Expr) -> exp.Expr:
    """Return text in one case. Spark's ILIKE compares the lower case, which has two letters for İ and depends on the
    end of the word for Σ."""
    written = literal_text(text)
    if written is not None:
        return exp.Literal.string(written.translate(str.maketrans(*_SAME_CASE)))
    letters = [exp.Literal.string(letters) for letters in _SAME_CASE]
    # translate takes 30 ns per letter
    template = "if(octet_length({0}) = length({0}), {0}, translate({0}, {1}, {2}))"
    return fill(template, [text, *letters], pa.string())


def _like_pattern(pattern: exp.Expr, escape: str) -> exp.Expr:
    """Translate a pattern: an escape before an ordinary character is ignored, at the end it is literal. Spark fails
    there."""
    if len(escape) != 1:
        return pattern
    mark = re.escape(escape)
    pairs = rf"((?:{mark}[%_{mark}])+)|({mark})\Z|{mark}"
    written = literal_text(pattern)
    if written is not None:
        cleaned = re.sub(pairs, lambda found: (found[1] or "") + (found[2] or "") * 2, written, flags=re.S)
        return exp.Literal.string(cleaned)
    if isinstance(pattern, exp.Any | exp.All):
        return pattern
    java = exp.Literal.string(pairs.replace(r"\Z", r"\z"))
    return fill("regexp_replace({0}, {1}, '$1$2$2')", [pattern, java], pa.string())
