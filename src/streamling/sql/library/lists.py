"""Lists. Places count from 1, or from the end when negative."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.inference import common, type_of
from streamling.sql.library.declaration import Args, Function, Spelling, TypeRule, element_of, fill, like, literal_text

_BOOL, _LONG, _TEXT = pa.bool_(), pa.int64(), pa.string()
_NONE = "slice({0}, 1, 0)"
_COUNT = "aggregate({0}, 0, (n, e) -> n + if(e <=> {1}, 1, 0))"


def _both(names: str) -> str:
    """Every array_x is also list_x."""
    return " ".join(f"array_{name} list_{name}" for name in names.split())


def _array(
    name: str,
    takes: str,
    spark: Spelling,
    summary: str,
    examples: str,
    result: pa.DataType | TypeRule | None = None,
    also: str = "",
    aliases: str = "",
    differs: str = "",
) -> Function:
    every = f"list_{name} {_both(also)} {aliases}"
    return Function(f"array_{name}", takes, spark, summary, examples, result, every, differs)


def _appended(args: Args) -> pa.DataType | None:
    types = [type_of(arg) for arg in args]
    lists = [type_ for type_ in types if type_ is not None and pa.types.is_list(type_)]
    return lists[0] if len(lists) == 1 and lists[0].value_type in types else None


def _make(args: Args) -> exp.Expr:
    return fill("array({*})", args) if args else fill("array_repeat(0L, 0)", [], pa.list_(_LONG))


def _made(args: Args) -> pa.DataType | None:
    element = common([type_of(arg) for arg in args])
    return None if element is None else pa.list_(element)


def _concat(args: Args) -> exp.Expr:
    """NULLs are left out; nothing but NULLs is NULL."""
    known = " AND ".join(f"{{{place}}} IS NULL" for place in range(len(args)))
    parts = ", ".join(f"coalesce({{{place}}}, array())" for place in range(len(args)))
    return fill(f"if({known}, NULL, concat({parts}))", args)


def _dimensions(type_: pa.DataType | None) -> int:
    depth = 0
    while type_ is not None and pa.types.is_list(type_):
        depth, type_ = depth + 1, type_.value_type
    return depth


def _ndims(args: Args) -> exp.Expr:
    return fill(f"if({{0}} IS NULL, NULL, {_dimensions(type_of(args[0]))}L)", args)


def _dims(args: Args) -> exp.Expr:
    """The length at every depth, along the first elements."""
    inner, sizes = "{0}", []
    for _ in range(max(1, _dimensions(type_of(args[0])))):
        sizes.append(f"CAST(size({inner}) AS BIGINT)")
        inner = f"try_element_at({inner}, 1)"
    return fill(f"if({{0}} IS NULL OR size({{0}}) = 0, NULL, array({', '.join(sizes)}))", args)


def _length(args: Args) -> exp.Expr:
    if len(args) == 1:
        return fill("CAST(size({0}) AS BIGINT)", args)
    deepest = _dimensions(type_of(args[0])) or 1
    inner, cases = "{0}", ""
    for depth in range(1, deepest + 1):
        cases += f" WHEN {{1}} = {depth} THEN CAST(size({inner}) AS BIGINT)"
        inner = f"try_element_at({inner}, 1)"
    return fill(f"CASE{cases} END", args)


def _flatten(args: Args) -> exp.Expr:
    """To the last depth; a flat list stays as it is."""
    depth, template = _dimensions(type_of(args[0])), "{0}"
    for _ in range(1, depth or 2):
        template = f"flatten(filter({template}, e -> e IS NOT NULL))"
    type_ = type_of(args[0])
    while type_ is not None and _dimensions(type_) > 1:
        type_ = type_.value_type
    return fill(template, args, type_)


def _sort(args: Args) -> exp.Expr:
    order, nulls = ((literal_text(arg) or "").upper() for arg in [*args[1:], exp.null(), exp.null()][:2])
    down = order == "DESC"
    last = nulls == "NULLS LAST" if nulls else False
    if down != last:  # sort_array puts NULLs first going up, last going down
        return fill(
            "concat(filter({0}, e -> e IS NULL), sort_array(filter({0}, e -> e IS NOT NULL), false))"
            if down
            else "concat(sort_array(filter({0}, e -> e IS NOT NULL)), filter({0}, e -> e IS NULL))",
            args,
        )
    return fill(f"sort_array({{0}}, {str(not down).lower()})", args)


_LOW = "if({1} < 0, greatest(size({0}) + {1} + 1, 1), if({1} < 1, 1, {1}))"
_HIGH = "if({2} < 0, size({0}) + {2} + 1, if({2} > size({0}), size({0}), {2}))"
_CUT = f"slice({{0}}, {_LOW}, if({_HIGH} < {_LOW}, 0, {_HIGH} - {_LOW} + 1))"
_STRIDE = f"transform(sequence({_LOW}, {_HIGH}, {{3}}), i -> try_element_at({{0}}, i))"
_STRIDES = f"if({{0}} IS NULL, NULL, if(sign({_HIGH} - {_LOW}) * sign({{3}}) < 0, {_NONE}, {_STRIDE}))"
_PLACED = "transform({0}, (e, i) -> if(e <=> {1}, CAST(i + 1 AS BIGINT), NULL))"
_FIRST = f"array_min({_PLACED})"
_FIRST_FROM = f"array_min(filter({_PLACED}, p -> p >= {{2}}))"
_KEPT = (
    "aggregate({0}, named_struct('n', 0L, 'kept', " + _NONE + "), (s, e) -> if({1} AND s.n < {2},"
    " named_struct('n', s.n + 1, 'kept', {3}), named_struct('n', s.n, 'kept', array_append(s.kept, e))), s -> s.kept)"
)


def _removed(limit: str) -> str:
    changed = _KEPT.replace("{1}", "e <=> {1}").replace("{3}", "s.kept").replace("{2}", limit)
    return f"if({{1}} IS NULL OR {limit} IS NULL, NULL, {changed})"


def _replaced(limit: str) -> str:
    return (
        f"if({limit} IS NULL, NULL, "
        "aggregate({0}, named_struct('n', 0L, 'kept', " + _NONE + "), (s, e) -> if(e <=> {1} AND s.n < " + limit + ","
        " named_struct('n', s.n + 1, 'kept', array_append(s.kept, {2})),"
        " named_struct('n', s.n, 'kept', array_append(s.kept, e))), s -> s.kept))"
    )


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
#: in the order of the longer one
_SHARED = "if(size({0}) > size({1}), array_intersect({0}, {1}), array_intersect({1}, {0}))"
_RESIZED = (
    "if({1} <= size({0}), slice({0}, 1, {1}), concat({0}, array_repeat(try_element_at("
    + _NONE
    + ", 1), {1} - size({0}))))",
    "if({1} <= size({0}), slice({0}, 1, {1}), concat({0}, array_repeat({2}, {1} - size({0}))))",
)

FUNCTIONS = (
    _array(
        "any_value",
        "list",
        "try_element_at(filter({0}, e -> e IS NOT NULL), 1)",
        "The first element that is not NULL.",
        "array_any_value([NULL, 2]) = 2",
        element_of(0),
    ),
    _array(
        "append",
        "list element",
        "array_append(coalesce({0}, array()), {1})",
        "With an element at the end.",
        "array_append([1, 2], 3) = [1, 2, 3]",
        _appended,
        "push_back",
    ),
    _array("compact", "list", "array_compact({0})", "Without its NULLs.", "array_compact([1, NULL]) = [1]", like(0)),
    _array(
        "concat",
        "list list*",
        _concat,
        "Lists one after the other.",
        "array_concat([1], [2, 3]) = [1, 2, 3]",
        like(0),
        "cat",
    ),
    _array(
        "dims", "list", _dims, "Its length at every depth.", "array_dims([[1, 2], [3, 4]]) = [2, 2]", pa.list_(_LONG)
    ),
    _array(
        "distinct", "list", "array_distinct({0})", "Every value once.", "array_distinct([1, 2, 1]) = [1, 2]", like(0)
    ),
    _array(
        "element",
        "list int",
        "if({1} = 0, NULL, try_element_at({0}, {1}))",
        "The element at a place; also `list[1]`.",
        "array_element([5, 6], 2) = 6\narray_element([5, 6], -1) = 6",
        element_of(0),
        "extract",
    ),
    _array(
        "empty",
        "list",
        "(size({0}) = 0)",
        "True for a list without elements.",
        "array_empty([1]) = false",
        _BOOL,
        aliases="empty",
    ),
    _array(
        "except",
        "list list",
        "array_except({0}, {1})",
        "Elements of the first that are not in the second.",
        "array_except([1, 2, 3], [2]) = [1, 3]",
        like(0),
    ),
    _array(
        "has",
        "list element",
        _HAS,
        "True when the element is there.",
        "array_has([1, 2], 2)",
        _BOOL,
        "contains",
    ),
    _array(
        "has_all",
        "list list",
        "(size(array_except({1}, {0})) = 0)",
        "True when all of the second are in the first.",
        "array_has_all([1, 2, 3], [1, 2])",
        _BOOL,
    ),
    _array(
        "has_any",
        "list list",
        "if({0} IS NULL, NULL, exists({1}, e -> exists({0}, f -> f <=> e)))",
        "True when they share an element.",
        "array_has_any([1, 2], [2, 9])",
        _BOOL,
        aliases="arrays_overlap",
    ),
    _array(
        "intersect",
        "list list",
        _SHARED,
        "Elements that both have, once.",
        "array_intersect([1, 2], [2, 3]) = [2]",
        like(0),
    ),
    _array(
        "length",
        "list int?",
        _length,
        "Number of elements, or of those at a depth.",
        "array_length([1, 2, 3]) = 3",
        _LONG,
    ),
    _array("max", "list", "array_max({0})", "The largest element.", "array_max([1, 3, 2]) = 3", element_of(0)),
    _array("min", "list", "array_min({0})", "The smallest element.", "array_min([3, 1, 2]) = 1", element_of(0)),
    _array("ndims", "list", _ndims, "How deep lists are nested in lists.", "array_ndims([[1]]) = 2", _LONG),
    _array(
        "pop_back",
        "list",
        "slice({0}, 1, greatest(size({0}) - 1, 0))",
        "Without the last element.",
        "array_pop_back([1, 2]) = [1]",
        like(0),
    ),
    _array(
        "pop_front",
        "list",
        "slice({0}, 2, size({0}))",
        "Without the first element.",
        "array_pop_front([1, 2]) = [2]",
        like(0),
    ),
    _array(
        "position",
        "list element place?",
        (_FIRST, _FIRST_FROM),
        "Place of an element (searched from a place on), or NULL.",
        "array_position([5, 6, 5], 5) = 1\narray_position([5, 6, 5], 5, 2) = 3",
        _LONG,
        "indexof",
    ),
    _array(
        "positions",
        "list element",
        f"array_compact({_PLACED})",
        "All places of an element.",
        "array_positions([1, 2, 1], 1) = [1, 3]",
        pa.list_(_LONG),
    ),
    _array(
        "prepend",
        "element list",
        "array_prepend(coalesce({1}, array()), {0})",
        "With an element at the start.",
        "array_prepend(1, [2]) = [1, 2]",
        _appended,
        "push_front",
    ),
    _array(
        "remove",
        "list element",
        _removed("1"),
        "Without the first element that is equal.",
        "array_remove([1, 2, 1], 1) = [2, 1]",
        like(0),
    ),
    _array(
        "remove_all",
        "list element",
        "if({1} IS NULL, NULL, filter({0}, e -> NOT (e <=> {1})))",
        "Without all elements that are equal.",
        "array_remove_all([1, 2, 1], 1) = [2]",
        like(0),
    ),
    _array(
        "remove_n",
        "list element int",
        _removed("{2}"),
        "Without the first n elements that are equal.",
        "array_remove_n([1, 2, 1, 1], 1, 2) = [2, 1]",
        like(0),
    ),
    _array(
        "repeat",
        "element int",
        "array_repeat({0}, {1})",
        "A list of the same element so many times.",
        "array_repeat('a', 2) = ['a', 'a']",
        lambda args: _made(args[:1]),
    ),
    _array(
        "replace",
        "list element element",
        _replaced("1"),
        "The first element that is equal replaced.",
        "array_replace([1, 2, 1], 1, 9) = [9, 2, 1]",
        like(0),
    ),
    _array(
        "replace_all",
        "list element element",
        "transform({0}, e -> if(e <=> {1}, {2}, e))",
        "All elements that are equal replaced.",
        "array_replace_all([1, 2, 1], 1, 9) = [9, 2, 9]",
        like(0),
    ),
    _array(
        "replace_n",
        "list element element int",
        _replaced("{3}"),
        "The first n elements that are equal replaced.",
        "array_replace_n([1, 1, 1], 1, 9, 2) = [9, 9, 1]",
        like(0),
    ),
    _array(
        "resize",
        "list int element?",
        _RESIZED,
        "Cut, or filled up with a value, to so many elements.",
        "array_resize([1], 3, 0) = [1, 0, 0]",
        like(0),
    ),
    _array("reverse", "list", "reverse({0})", "From last to first.", "array_reverse([1, 2]) = [2, 1]", like(0)),
    _array(
        "slice",
        "list int int int?",
        (_CUT, _STRIDES),
        "The elements from one place to another, with a step.",
        "array_slice([1, 2, 3, 4], 2, 3) = [2, 3]\narray_slice([1, 2, 3, 4, 5], 1, 5, 2) = [1, 3, 5]",
        like(0),
    ),
    _array(
        "sort",
        "list order? nulls?",
        _sort,
        "In order: 'ASC' or 'DESC', 'NULLS FIRST' or 'NULLS LAST'.",
        "array_sort([3, 1, 2]) = [1, 2, 3]\narray_sort([3, 1, 2], 'DESC') = [3, 2, 1]",
        like(0),
    ),
    _array(
        "to_string",
        "list text text?",
        _JOINED,
        "The elements as one text, with a separator; NULLs left out, or as a text.",
        "array_to_string([1, 2], '-') = '1-2'\narray_to_string([1, NULL], '-', '?') = '1-?'",
        _TEXT,
        "join",
    ),
    _array(
        "union",
        "list list",
        "array_union({0}, {1})",
        "Elements of both, every value once.",
        "array_union([1, 2], [2, 3]) = [1, 2, 3]",
        like(0),
    ),
    Function(
        "arrays_zip",
        "list list*",
        lambda args: _zip(args),
        "Elements side by side, as structs with fields `1`, `2`, ….",
        "arrays_zip([1], ['a'])[1]['2'] = 'a'",
        None,
        "list_zip",
    ),
    Function(
        "cardinality",
        "list",
        "CAST(cardinality({0}) AS BIGINT)",
        "Number of elements of a list or map.",
        "cardinality([1, 2]) = 2",
        _LONG,
    ),
    Function("flatten", "lists", _flatten, "Lists in a list as one list.", "flatten([[1, 2], [3]]) = [1, 2, 3]"),
    Function(
        "generate_series",
        "long long long?",
        _NUMBERS,
        "Whole numbers up to the second and with it, with a step.",
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
        "Whole numbers from 0 or the first up to, but without, the last, with a step.",
        "range(3) = [0, 1, 2]\nrange(1, 4) = [1, 2, 3]\nrange(1, 6, 2) = [1, 3, 5]",
        pa.list_(_LONG),
    ),
    Function(
        "string_to_array",
        "text text text?",
        lambda args: _pieces(args),
        "The pieces between separators; those equal to the third are NULL.",
        "string_to_array('a.b', '.') = ['a', 'b']",
        pa.list_(_TEXT),
        "string_to_list",
    ),
)


def _zip(args: Args) -> exp.Expr:
    longest = "greatest(" + ", ".join(f"coalesce(size({{{place}}}), 0)" for place in range(len(args))) + ", 0)"
    fields = ", ".join(f"'{place + 1}', get({{{place}}}, i - 1)" for place in range(len(args)))
    known = " AND ".join(f"{{{place}}} IS NULL" for place in range(len(args)))
    return fill(
        f"if({known}, NULL, transform(slice(sequence(1, greatest({longest}, 1)), 1, {longest}),"
        f" i -> named_struct({fields})))",
        args,
    )


def _pieces(args: Args) -> exp.Expr:
    """A NULL separator gives the characters, an empty one the whole text."""
    if isinstance(args[1], exp.Null):
        pieces = "if({0} = '', array(), split({0}, ''))"
    else:
        pieces = (
            "if({0} = '', array(), if({1} IS NULL, split({0}, ''), if({1} = '', if({0} IS NULL, NULL, array({0})),"
            " split({0}, concat('\\\\Q', {1}, '\\\\E'), -1))))"
        )
    if len(args) == 3:
        pieces = f"transform({pieces}, e -> nullif(e, {{2}}))"
    return fill(pieces, args)
