"""Functions that change lists. Positions start at 1, or at -1 from the end."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, fill, literal_text, type_of
from streamling.sql.library.declaration import Rewrite, like
from streamling.sql.library.lists import array_function

_NONE = "slice({0}, 1, 0)"
_LOW = "if({1} < 0, greatest(size({0}) + {1} + 1, 1), if({1} < 1, 1, {1}))"
_HIGH = "if({2} < 0, size({0}) + {2} + 1, if({2} > size({0}), size({0}), {2}))"
_CUT = f"slice({{0}}, {_LOW}, if({_HIGH} < {_LOW}, 0, {_HIGH} - {_LOW} + 1))"
_STRIDE = f"transform(sequence({_LOW}, {_HIGH}, {{3}}), __i -> try_element_at({{0}}, __i))"
_BACKWARDS = f"size({{0}}) = 0 OR sign({_HIGH} - {_LOW}) * sign({{3}}) < 0"
_STRIDES = f"if({{0}} IS NULL, NULL, if({_BACKWARDS}, {_NONE}, {_STRIDE}))"
#: in the order of the longer one
_SHARED = "if(size({0}) > size({1}), array_intersect({0}, {1}), array_intersect({1}, {0}))"
_RESIZED = (
    "if({1} <= size({0}), slice({0}, 1, {1}), concat({0}, array_repeat(try_element_at("
    + _NONE
    + ", 1), {1} - size({0}))))",
    "if({1} <= size({0}), slice({0}, 1, {1}), concat({0}, array_repeat({2}, {1} - size({0}))))",
)


def _appended(args: Args) -> pa.DataType | None:
    types = [type_of(arg) for arg in args]
    lists = [type_ for type_ in types if type_ is not None and pa.types.is_list(type_)]
    return lists[0] if len(lists) == 1 and lists[0].value_type in types else None


def _concat(args: Args) -> exp.Expr:
    """Ignore NULLs; NULL if all arguments are NULL."""
    known = " AND ".join(f"{{{place}}} IS NULL" for place in range(len(args)))
    parts = ", ".join(f"coalesce({{{place}}}, array())" for place in range(len(args)))
    return fill(f"if({known}, NULL, concat({parts}))", args)


def _sort(args: Args) -> exp.Expr:
    order, nulls = ((literal_text(arg) or "").upper() for arg in [*args[1:], exp.null(), exp.null()][:2])
    down = order == "DESC"
    last = nulls == "NULLS LAST" if nulls else False
    if down != last:  # sort_array puts NULLs first when ascending, last when descending
        return fill(
            "concat(filter({0}, __e -> __e IS NULL), sort_array(filter({0}, __e -> __e IS NOT NULL), false))"
            if down
            else "concat(sort_array(filter({0}, __e -> __e IS NOT NULL)), filter({0}, __e -> __e IS NULL))",
            args,
        )
    return fill(f"sort_array({{0}}, {str(not down).lower()})", args)


def _changed(limit: str, instead: str) -> str:
    """Remove or change the first ``limit`` elements that are equal to the second argument."""
    return (
        f"aggregate({{0}}, named_struct('n', 0L, 'kept', {_NONE}), (__s, __e) -> if(__e <=> {{1}} AND __s.n < {limit},"
        f" named_struct('n', __s.n + 1, 'kept', {instead}),"
        " named_struct('n', __s.n, 'kept', array_append(__s.kept, __e))), __s -> __s.kept)"
    )


def _removed(limit: str) -> str:
    return f"if({{1}} IS NULL OR {limit} IS NULL, NULL, {_changed(limit, '__s.kept')})"


def _replaced(limit: str) -> Rewrite:
    template = f"if({limit} IS NULL, NULL, {_changed(limit, 'array_append(__s.kept, {2})')})"

    def rewrite(args: Args) -> exp.Expr:
        if _appended([args[0], args[2]]) is None:  # also if the new element is itself a list
            args = [fill("concat({0}, slice(array({1}), 1, 0))", [args[0], args[2]]), *args[1:]]
        return fill(template, args)

    return rewrite


FUNCTIONS = (
    array_function(
        "append",
        "list element",
        "array_append(coalesce({0}, array()), {1})",
        "The list with an element appended.",
        "array_append([1, 2], 3) = [1, 2, 3]",
        _appended,
        "push_back",
    ),
    array_function(
        "compact", "list", "array_compact({0})", "The list without NULLs.", "array_compact([1, NULL]) = [1]", like(0)
    ),
    array_function(
        "concat",
        "list list*",
        _concat,
        "Concatenates lists.",
        "array_concat([1], [2, 3]) = [1, 2, 3]",
        like(0),
        "cat",
    ),
    array_function(
        "distinct",
        "list",
        "array_distinct({0})",
        "The list without duplicates.",
        "array_distinct([1, 2, 1]) = [1, 2]",
        like(0),
    ),
    array_function(
        "except",
        "list list",
        "array_except({0}, {1})",
        "Elements of the first list that are not in the second.",
        "array_except([1, 2, 3], [2]) = [1, 3]",
        like(0),
    ),
    array_function(
        "intersect",
        "list list",
        _SHARED,
        "Elements of both lists, without duplicates.",
        "array_intersect([1, 2], [2, 3]) = [2]",
        like(0),
    ),
    array_function(
        "pop_back",
        "list",
        "slice({0}, 1, greatest(size({0}) - 1, 0))",
        "The list without its last element.",
        "array_pop_back([1, 2]) = [1]",
        like(0),
    ),
    array_function(
        "pop_front",
        "list",
        "slice({0}, 2, size({0}))",
        "The list without its first element.",
        "array_pop_front([1, 2]) = [2]",
        like(0),
    ),
    array_function(
        "prepend",
        "element list",
        "array_prepend(coalesce({1}, array()), {0})",
        "The list with an element prepended.",
        "array_prepend(1, [2]) = [1, 2]",
        _appended,
        "push_front",
    ),
    array_function(
        "remove",
        "list element",
        _removed("1"),
        "Removes the first equal element.",
        "array_remove([1, 2, 1], 1) = [2, 1]",
        like(0),
    ),
    array_function(
        "remove_all",
        "list element",
        "if({1} IS NULL, NULL, filter({0}, __e -> NOT (__e <=> {1})))",
        "Removes all equal elements.",
        "array_remove_all([1, 2, 1], 1) = [2]",
        like(0),
    ),
    array_function(
        "remove_n",
        "list element int",
        _removed("{2}"),
        "Removes the first n equal elements.",
        "array_remove_n([1, 2, 1, 1], 1, 2) = [2, 1]",
        like(0),
    ),
    array_function(
        "replace",
        "list element element",
        _replaced("1"),
        "Replaces the first equal element.",
        "array_replace([1, 2, 1], 1, 9) = [9, 2, 1]",
        lambda args: _appended([args[0], args[2]]),
    ),
    array_function(
        "replace_all",
        "list element element",
        "transform({0}, __e -> if(__e <=> {1}, {2}, __e))",
        "Replaces all equal elements.",
        "array_replace_all([1, 2, 1], 1, 9) = [9, 2, 9]",
        like(0),
    ),
    array_function(
        "replace_n",
        "list element element int",
        _replaced("{3}"),
        "Replaces the first n equal elements.",
        "array_replace_n([1, 1, 1], 1, 9, 2) = [9, 9, 1]",
        lambda args: _appended([args[0], args[2]]),
    ),
    array_function(
        "resize",
        "list int element?",
        _RESIZED,
        "Truncates the list to a length, or pads it with a value.",
        "array_resize([1], 3, 0) = [1, 0, 0]",
        like(0),
    ),
    array_function(
        "reverse", "list", "reverse({0})", "The list in reverse order.", "array_reverse([1, 2]) = [2, 1]", like(0)
    ),
    array_function(
        "slice",
        "list int int int?",
        (_CUT, _STRIDES),
        "The elements from one position to another, with a step.",
        "array_slice([1, 2, 3, 4], 2, 3) = [2, 3]\narray_slice([1, 2, 3, 4, 5], 1, 5, 2) = [1, 3, 5]",
        like(0),
    ),
    array_function(
        "sort",
        "list order? nulls?",
        _sort,
        "Sorts the list: 'ASC' or 'DESC', 'NULLS FIRST' or 'NULLS LAST'.",
        "array_sort([3, 1, 2]) = [1, 2, 3]\narray_sort([3, 1, 2], 'DESC') = [3, 2, 1]",
        like(0),
    ),
    array_function(
        "union",
        "list list",
        "array_union({0}, {1})",
        "Elements of either list, without duplicates.",
        "array_union([1, 2], [2, 3]) = [1, 2, 3]",
        like(0),
    ),
)
