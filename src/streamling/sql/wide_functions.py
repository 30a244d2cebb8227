"""Calls with wide numbers: their own functions, and Spark's functions applied to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import literal
from streamling.sql import typenames
from streamling.sql.fragments import UnsupportedSql, finished, type_of, widen
from streamling.sql.library.wide_numbers import ADD, DIVIDE, FUNCTIONS, MULTIPLY, REMAINDER, SUBTRACT
from streamling.sql.printing import spark_sql
from streamling.sql.wide_operators import WideNumbers
from streamling.sql.wide_values import cast, constant, text_of, to_wide
from streamling.types.wide.layout import I256, U256, WideInteger, contains_wide, decimal_type, is_wide

_ARITHMETIC = {"add": ADD, "sub": SUBTRACT, "mul": MULTIPLY, "div": DIVIDE, "mod": REMAINDER}
_TYPES: Mapping[str, WideInteger] = {"u256": U256, "i256": I256}
#: functions that convert the values among the arguments to one type, which is that of the result; the index of the
#: first value
_GROUPED = {"coalesce": 0, "ifnull": 0, "nvl": 0, "greatest": 0, "least": 0, "nullif": 0, "nvl2": 1, "if": 1}
#: functions that work on the text of a value
_TEXTUAL = frozenset({"concat", "concat_ws", "dynamic_table_check"})
#: functions that treat a value as a whole
_INDIFFERENT = frozenset({"isnull", "isnotnull", "size", "cardinality", "array_length", "array_size", "map_keys"})
#: functions that return a list like their argument, or an element of it
_LIKE_LIST = frozenset({"array_distinct", "array_sort", "sort_array", "slice", "reverse", "array_reverse", "shuffle"})
_ELEMENT = frozenset({"array_max", "array_min", "element_at", "try_element_at", "get"})
_ARRAYS = ("array", "make_array", "make_list")
_REMEDY = "cast it first, for example CAST(x AS TEXT) or CAST(x AS DOUBLE)"

#: names of the functions that exist only for wide numbers
_OWN = frozenset(function.name for function in FUNCTIONS)


def rewrite_call(node: exp.Anonymous, numbers: WideNumbers) -> exp.Expr | None:
    """Return the call as Spark SQL with its type, if it involves wide numbers; None otherwise, perhaps with changed
    arguments. Raises `UnsupportedSql`."""
    name, args = node.name.lower(), node.expressions
    takes_wide = any(contains_wide(type_of(arg.unalias())) for arg in args)
    if name not in _OWN and not takes_wide and not _casts_to_wide(name, args):
        return None
    if node.find_ancestor(exp.Lambda):
        raise UnsupportedSql(f"{name}() with wide numbers is not allowed inside a lambda", "unnest the list first")
    return _own(name, args, node, numbers) if name in _OWN else _known(name, args, node, numbers)


def _casts_to_wide(name: str, args: list[exp.Expr]) -> bool:
    known = typenames.arrow_name(args[1].name) if name in ("arrow_cast", "arrow_try_cast") and len(args) == 2 else None
    return known is not None and contains_wide(known[1])


def _own(name: str, args: list[exp.Expr], node: exp.Anonymous, numbers: WideNumbers) -> exp.Expr:
    where = numbers.where(node)
    start, _, operation = name.partition("_")
    if name == "to_decimal_arb_from_string":
        _count(name, args, 3)
        return finished(cast(args[0], _decimal(args[1:]), where), _decimal(args[1:]))
    if name == "to_int64":
        _count(name, args, 1)
        long = numbers.cast(args[0], ("BIGINT", pa.int64()), node)
        return finished(f"CAST({spark_sql(args[0])} AS BIGINT)", pa.int64()) if long is None else long
    if start == "to":
        _count(name, args, 1)
        type_ = _TYPES[operation]
        return finished(to_wide(args[0], type_, where) if constant(args[0]) else cast(args[0], type_, where), type_)
    if start == "decimal":
        return _of_decimal(name, args, where)
    type_ = _TYPES[start]
    _count(name, args, 2 if operation in _ARITHMETIC else 1)
    values = [finished(to_wide(arg, type_, where), type_, arg.meta) for arg in args]
    if operation in _ARITHMETIC:
        return numbers.arithmetic(_ARITHMETIC[operation], values[0], values[1], node)
    one: Mapping[str, Callable[[], exp.Expr]] = {
        "neg": lambda: numbers.negated(values[0], node),
        "abs": lambda: numbers.absolute(values[0], node),
        "to_string": lambda: numbers.as_text(values[0]),
    }
    return one[operation]()


def _of_decimal(name: str, args: list[exp.Expr], where: str) -> exp.Expr:
    _count(name, args, 1)
    if not is_wide(type_of(args[0])):
        raise UnsupportedSql(
            f"{name}() takes a decimal of more than 38 digits, not {type_of(args[0])}", "cast it first"
        )
    if name == "decimal_arb_to_string":
        return finished(text_of(args[0], where), pa.string())
    return finished(spark_sql(args[0]), pa.binary())  # the bytes of wide numbers sort like the numbers


def _decimal(sizes: list[exp.Expr]) -> pa.DataType:
    texts = [constant(size) or "" for size in sizes]
    precision, scale = (int(text) if text.isdigit() else -1 for text in texts)
    if not 38 < precision <= 1000 or not 0 <= scale <= precision:
        raise UnsupportedSql(
            "precision must be a number from 39 to 1000, scale from 0 to 1000", "write f(text, 100, 20)"
        )
    return decimal_type(precision, scale)


def _count(name: str, args: list[exp.Expr], wanted: int) -> None:
    if len(args) != wanted:
        raise UnsupportedSql(f"{name}() takes {wanted} argument{'s' * (wanted > 1)}, not {len(args)}")


def _known(name: str, args: list[exp.Expr], node: exp.Anonymous, numbers: WideNumbers) -> exp.Expr | None:
    """Return a call of another function with wide numbers among its arguments."""
    if name in _TEXTUAL:
        node.set("expressions", [numbers.as_text(arg) for arg in args])
        return None
    if name in ("arrow_cast", "arrow_try_cast") and (known := typenames.arrow_name(args[1].name)):
        return numbers.cast(args[0], known, node, or_null=name == "arrow_try_cast")
    if name == "abs" and len(args) == 1:
        return numbers.absolute(args[0], node)
    if name == "mod" and len(args) == 2:
        return numbers.arithmetic(REMAINDER, args[0], args[1], node)
    if name in _ARRAYS:
        return numbers.array(args, node)
    if name == "struct":
        return _struct(args)
    if name in _GROUPED:
        first = _GROUPED[name]
        values, type_ = numbers.values(args[first:], node)
        return finished(f"{name}({', '.join(map(spark_sql, [*args[:first], *values]))})", type_)
    list_ = type_of(args[0]) if args else None
    if name in _INDIFFERENT and not any(contains_wide(type_of(arg)) for arg in args[1:]):
        return None
    if list_ is not None and pa.types.is_list(list_) and name in _LIKE_LIST | _ELEMENT:
        return finished(spark_sql(node), list_ if name in _LIKE_LIST else list_.value_type)
    found = next(type_of(arg) for arg in args if contains_wide(type_of(arg)))
    raise UnsupportedSql(f"{name}() does not take {found}", _REMEDY)


def _struct(args: list[exp.Expr]) -> exp.Expr:
    """Name unnamed members c0, c1, …, as without wide numbers."""
    names = [arg.alias if isinstance(arg, exp.Alias) else f"c{number}" for number, arg in enumerate(args)]
    values = [arg.unalias() for arg in args]
    types = [type_of(value) for value in values]
    if any(type_ is None for type_ in types):
        raise UnsupportedSql("struct() with wide numbers needs the types of all its members", "cast them")
    parts = [f"{literal(name)}, {spark_sql(widen(value))}" for name, value in zip(names, values, strict=True)]
    return finished(f"named_struct({', '.join(parts)})", pa.struct(list(zip(names, types, strict=True))))
