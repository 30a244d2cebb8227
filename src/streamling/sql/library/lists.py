"""Functions that create and inspect lists. Positions start at 1, or at -1 from the end."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, fill, type_of
from streamling.sql.inference import common
from streamling.sql.library.declaration import Function, Implementation, TypeRule, element_of

_BOOL, _LONG, _TEXT = pa.bool_(), pa.int64(), pa.string()
_PLACED = "transform({0}, (__e, __i) -> if(__e <=> {1}, CAST(__i + 1 AS BIGINT), NULL))"
_FIRST = f"array_min({_PLACED})"
_FIRST_FROM = f"array_min(filter({_PLACED}, __p -> __p >= {{2}}))"
_NUMBERS = (
    "if({0} IS NULL OR {1} IS NULL, NULL, if({0} > {1}, array_repeat(0L, 0), sequence({0}, {1})))",
    "if(sign({1} - {0}) * sign({2}) < 0, array_repeat(0L, 0), sequence({0}, {1}, {2}))",
)
_UNTIL = (
    "if({0} >= {1}, array_repeat(0L, 0), sequence({0}, {1} - 1))",
    "if(({1} - {0}) * sign({2}) <= 0, array_repeat(0L, 0), sequence({0}, {1} - CAST(sign({2}) AS BIGINT), {2}))",
)
_JOINED = ("array_join({0}, {1})", "if({2} IS NULL, array_join({0}, {1}), array_join({0}, {1}, {2}))")
_HAS = "coalesce(array_contains({0}, {1}), if({0} IS NULL OR {1} IS NULL, NULL, false))"


def array_function(
    name: str,
    takes: str,
    spark: Implementation,
    summary: str,
    examples: str,
    result: pa.DataType | TypeRule | None = None,
    also: str = "",
    aliases: str = "",
    differs: str = "",
) -> Function:
    others = [f"{prefix}_{other}" for other in also.split() for prefix in ("array", "list")]
    every = " ".join([f"list_{name}", *others, *aliases.split()])
    return Function(f"array_{name}", takes, spark, summary, examples, result, every, differs)


def _make(args: Args) -> exp.Expr:
    return fill("array({*})", args) if args else fill("array_repeat(0L, 0)", [], pa.list_(_LONG))


def _made(args: Args) -> pa.DataType | None:
    element = common([type_of(arg) for arg in args])
    return None if element is None else pa.list_(element)


def _dimensions(type_: pa.DataType | None) -> int:
    depth = 0
    while type_ is not None and pa.types.is_list(type_):
        depth, type_ = depth + 1, type_.value_type
    return depth


def _ndims(args: Args) -> exp.Expr:
    return fill(f"if({{0}} IS NULL, NULL, {_dimensions(type_of(args[0]))}L)", args)


def _dims(args: Args) -> exp.Expr:
    """Return the length at every depth, following the first elements."""
    inner, sizes = "{0}", []
    for _ in range(max(1, _dimensions(type_of(args[0])))):
        sizes.append(f"CAST(size({inner}) AS BIGINT)")
        inner = f"try_element_at({inner}, 1)"
    return fill(f"if({{0}} IS NULL OR size({{0}}) = 0, NULL, array({', '.join(sizes)}))", args)


def _length(args: Args) -> exp.Expr:
    if len(args) == 1:
        return fill("CAST(size({0}) AS BIGINT)", args)
    deepest = _dimensions(type_of(args[0])) or 1
    inner, size, cases = "{0}", "size({0})", ""
    for depth in range(1, deepest + 1):
        cases += f" WHEN {{1}} = {depth} THEN CAST({size} AS BIGINT)"
        first = f"try_element_at({inner}, 1)"
        # NULL as the first of several counts as an empty list
        size = f"if(size({inner}) > 0, coalesce(size({first}), 0), NULL)"
        inner = first
    return fill(f"CASE{cases} END", args)


def _flatten(args: Args) -> exp.Expr:
    """Flatten all depths; a flat list is unchanged."""
    depth, template = _dimensions(type_of(args[0])), "{0}"
    for _ in range(1, depth or 2):
        template = f"flatten(filter({template}, __e -> __e IS NOT NULL))"
    type_ = type_of(args[0])
    while type_ is not None and _dimensions(type_) > 1:
        type_ = type_.value_type
    return fill(template, args, type_)


def _cardinality(args: Args) -> exp.Expr:
    nested = _dimensions(type_of(args[0])) > 1
    return fill("CAST(cardinality({0}) AS BIGINT)", [_flatten(args)] if nested else args)


def _zip(args: Args) -> exp.Expr:
    longest = "greatest(" + ", ".join(f"coalesce(size({{{place}}}), 0)" for place in range(len(args))) + ", 0)"
    fields = ", ".join(f"'{place + 1}', get({{{place}}}, __i - 1)" for place in range(len(args)))
    known = " AND ".join(f"{{{place}}} IS NULL" for place in range(len(args)))
    return fill(
        f"if({known}, NULL, transform(slice(sequence(1, greatest({longest}, 1)), 1, {longest}),"
        f" __i -> named_struct({fields})))",
        args,
    )


def _pieces(args: Args) -> exp.Expr:
    """Split a text. A NULL separator returns the characters, an empty one the whole text."""
    if isinstance(args[1], exp.Null):
        pieces = "if({0} = '', array(), split({0}, ''))"
    else:
        pieces = (
            "if({0} = '', array(), if({1} IS NULL, split({0}, ''), if({1} = '', if({0} IS NULL, NULL, array({0})),"
            " split({0}, concat('\\\\Q', {1}, '\\\\E'), -1))))"
        )
    if len(args) == 3:
        pieces = f"transform({pieces}, __e -> nullif(__e, {{2}}))"
    return fill(pieces, args)


FUNCTIONS = (
    array_function(
        "any_value",
        "list",
        "try_element_at(filter({0}, __e -> __e IS NOT NULL), 1)",
        "The first element that is not NULL.",
        "array_any_value([NULL, 2]) = 2",
        element_of(0),
    ),
    array_function(
        "dims", "list", _dims, "The length at every depth.", "array_dims([[1, 2], [3, 4]]) = [2, 2]", pa.list_(_LONG)
    ),
    array_function(
        "element",
        "list int",
        "if({1} = 0, NULL, try_element_at({0}, {1}))",
        "The element at a position; also `list[1]`.",
        "array_element([5, 6], 2) = 6\narray_element([5, 6], -1) = 6",
        element_of(0),
        "extract",
    ),
    array_function(
        "empty",
        "list",
        "(size({0}) = 0)",
        "Whether the list is empty.",
        "array_empty([1]) = false",
        _BOOL,
        aliases="empty",
    ),
    array_function(
        "has",
        "list element",
        _HAS,
        "Whether the list contains an element.",
        "array_has([1, 2], 2)",
        _BOOL,
        "contains",
    ),
    array_function(
        "has_all",
        "list list",
        "(size(array_except({1}, {0})) = 0)",
        "Whether the first list contains all elements of the second.",
        "array_has_all([1, 2, 3], [1, 2])",
        _BOOL,
    ),
    array_function(
        "has_any",
        "list list",
        "if({0} IS NULL, NULL, exists({1}, __e -> exists({0}, __f -> __f <=> __e)))",
        "Whether the lists have a common element.",
        "array_has_any([1, 2], [2, 9])",
        _BOOL,
        aliases="arrays_overlap",
    ),
    array_function(
        "length",
        "list int?",
        _length,
        "Number of elements, or of those at a depth.",
        "array_length([1, 2, 3]) = 3",
        _LONG,
    ),
    array_function("max", "list", "array_max({0})", "The largest element.", "array_max([1, 3, 2]) = 3", element_of(0)),
    array_function("min", "list", "array_min({0})", "The smallest element.", "array_min([3, 1, 2]) = 1", element_of(0)),
    array_function("ndims", "list", _ndims, "The nesting depth of lists.", "array_ndims([[1]]) = 2", _LONG),
    array_function(
        "position",
        "list element place?",
        (_FIRST, _FIRST_FROM),
        "Position of an element, optionally starting at a position, or NULL.",
        "array_position([5, 6, 5], 5) = 1\narray_position([5, 6, 5], 5, 2) = 3",
        _LONG,
        "indexof",
    ),
    array_function(
        "positions",
        "list element",
        f"array_compact({_PLACED})",
        "All positions of an element.",
        "array_positions([1, 2, 1], 1) = [1, 3]",
        pa.list_(_LONG),
    ),
    array_function(
        "repeat",
        "element int",
        "array_repeat({0}, {1})",
        "A list that repeats an element.",
        "array_repeat('a', 2) = ['a', 'a']",
        lambda args: _made(args[:1]),
    ),
    array_function(
        "to_string",
        "list text text?",
        _JOINED,
        "Joins the elements with a separator; NULLs are ignored, or replaced by a text.",
        "array_to_string([1, 2], '-') = '1-2'\narray_to_string([1, NULL], '-', '?') = '1-?'",
        _TEXT,
        "join",
    ),
    Function(
        "arrays_zip",
        "list list*",
        _zip,
        "Corresponding elements as structs with fields `1`, `2`, ….",
        "arrays_zip([1], ['a'])[1]['2'] = 'a'",
        None,
        "list_zip",
    ),
    Function(
        "cardinality",
        "list",
        _cardinality,
        "Number of elements of a list, of all nested lists, or of a map.",
        "cardinality([1, 2]) = 2\ncardinality([[1, 2], [3]]) = 3",
        _LONG,
    ),
    Function("flatten", "lists", _flatten, "Flattens a list of lists.", "flatten([[1, 2], [3]]) = [1, 2, 3]"),
    Function(
        "generate_series",
        "long long long?",
        _NUMBERS,
        "Integers up to and including the second argument, with a step.",
        "generate_series(1, 3) = [1, 2, 3]\ngenerate_series(5, 1, -2) = [5, 3, 1]",
        pa.list_(_LONG),
    ),
    Function(
        "make_array",
        "any*",
        _make,
        "A list of values; also `[1, 2]`.",
        "make_array(1, 2) = [1, 2]",
        _made,
        "make_list array",
    ),
    Function(
        "range",
        "long long? long?",
        ("if({0} <= 0, array_repeat(0L, 0), sequence(0L, {0} - 1))", *_UNTIL),
        "Integers from 0 or the first argument up to, but excluding, the last, with a step.",
        "range(3) = [0, 1, 2]\nrange(1, 4) = [1, 2, 3]\nrange(1, 6, 2) = [1, 3, 5]",
        pa.list_(_LONG),
    ),
    Function(
        "string_to_array",
        "text text text?",
        _pieces,
        "The parts between separators; those equal to the third argument are NULL.",
        "string_to_array('a.b', '.') = ['a', 'b']",
        pa.list_(_TEXT),
        "string_to_list",
    ),
)
