"""Structs, maps, and types."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql import typenames
from streamling.sql.fragments import Args, UnsupportedSql, call, fill, literal_text, type_of
from streamling.sql.library.declaration import Function, Rewrite, like

_TEXT = pa.string()


def _is_map(arg: exp.Expr) -> bool:
    return bool(pa.types.is_map(type_of(arg) or pa.null()))


def _struct(args: Args) -> exp.Expr:
    """Name unnamed fields c0, c1, …; ``struct(x AS a)`` names its own."""
    named = [
        part
        for number, arg in enumerate(args)
        for part in (
            exp.Literal.string(arg.alias if isinstance(arg, exp.Alias) else f"c{number}"),
            _nullable(arg.this if isinstance(arg, exp.Alias) else arg),
        )
    ]
    return call("named_struct", *named)


def _named_struct(args: Args) -> exp.Expr:
    return call("named_struct", *(_nullable(arg) if place % 2 else arg for place, arg in enumerate(args)))


def _nullable(value: exp.Expr) -> exp.Expr:
    """Make fields nullable, because they are NULL if their struct is: Arrow rejects this for non-nullable fields. The
    optimizer removes the condition."""
    return fill("if(true, {0}, NULL)", [value], type_of(value))


def _arrow_cast(function: str) -> Rewrite:
    def rewrite(args: Args) -> exp.Expr:
        name = literal_text(args[1])
        known = typenames.arrow_name(name) if name is not None else None
        if known is None:
            raise UnsupportedSql(f"{args[1].sql()} is not a known Arrow type", "such as 'Int64' or 'Utf8'")
        return typenames.converted(args[0], *known, function)

    return rewrite


def _cast_like(function: str) -> Rewrite:
    def rewrite(args: Args) -> exp.Expr:
        type_ = type_of(args[1])
        spelled = typenames.spark_type_name(type_) if type_ is not None else None
        if spelled is None:
            raise UnsupportedSql("the type of the second argument is unknown here", f"write {function}(x AS type)")
        return typenames.converted(args[0], spelled, type_, function)

    return rewrite


def _typeof(args: Args) -> exp.Expr:
    type_ = type_of(args[0])
    if type_ is None:
        raise UnsupportedSql("the type is unknown here", "write typeof(x) instead")
    return exp.Literal.string(typenames.arrow_spelling(type_))


def _map(args: Args) -> exp.Expr | None:
    """Translate ``map(keys, values)`` over two lists is DataFusion's; Spark's takes keys and values alternately."""
    lists = len(args) == 2 and all(pa.types.is_list(type_of(arg) or pa.null()) for arg in args)
    return call("map_from_arrays", *args) if lists else call("map", *args)


def _get_field(args: Args) -> exp.Expr:
    found = args[0]
    for name in args[1:]:
        template = "try_element_at({0}, {1})" if found is args[0] and _is_map(found) else "({0})[{1}]"
        found = fill(template, [found, name])
    return found


def _entries(args: Args) -> pa.DataType | None:
    type_ = type_of(args[0])
    if type_ is None or not pa.types.is_map(type_):
        return None
    return pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))


def _extract(args: Args) -> exp.Expr | None:
    """Translate ``element_at``; with a list and a position it is Spark's."""
    if not _is_map(args[0]) and type_of(args[0]) is not None:
        return None
    return fill("array(try_element_at({0}, {1}))", args)


FUNCTIONS = (
    Function("arrow_cast", "any name", _arrow_cast("CAST"), "Casts to an Arrow type.", "arrow_cast('5', 'Int64') = 5"),
    Function(
        "arrow_try_cast",
        "any name",
        _arrow_cast("TRY_CAST"),
        "Casts to an Arrow type; NULL if it fails.",
        "arrow_try_cast('x', 'Int64') IS NULL",
    ),
    Function("arrow_typeof", "any", _typeof, "The Arrow type of a value.", "arrow_typeof(1) = 'Int64'", _TEXT),
    Function(
        "cast_to_type", "any any", _cast_like("CAST"), "Casts to the type of another value.", "cast_to_type('5', 1) = 5"
    ),
    Function(
        "try_cast_to_type",
        "any any",
        _cast_like("TRY_CAST"),
        "Casts to the type of another value; NULL if it fails.",
        "try_cast_to_type('x', 1) IS NULL",
    ),
    Function(
        "version",
        "",
        "version()",
        "The version of Spark.",
        "length(version()) > 0",
        _TEXT,
        differs="it is Spark that runs here",
    ),
    Function(
        "with_metadata",
        "any text text text*",
        lambda args: args[0],
        "The value unchanged; metadata of columns is not kept.",
        "with_metadata(1, 'unit', 'm') = 1",
        like(0),
    ),
    Function(
        "get_field",
        "struct name name*",
        _get_field,
        "A field of a struct, or the value of a key of a map; also `s['a']`.",
        "get_field(named_struct('a', 1), 'a') = 1",
    ),
    Function("map", "list list", _map, "A map from a list of keys and a list of values.", "map(['a'], [1])['a'] = 1"),
    Function(
        "map_entries",
        "map",
        "map_entries({0})",
        "The entries as structs of `key` and `value`.",
        "map_entries(map(['a'], [1]))[1]['key'] = 'a'",
        _entries,
    ),
    Function(
        "map_extract",
        "map any",
        _extract,
        "A list with the value of a key, or with NULL if there is none.",
        "map_extract(map(['a'], [1]), 'a') = [1]",
        None,
        "element_at",
    ),
    Function("map_keys", "map", "map_keys({0})", "The keys as a list.", "map_keys(map(['a'], [1])) = ['a']"),
    Function("map_values", "map", "map_values({0})", "The values as a list.", "map_values(map(['a'], [1])) = [1]"),
    Function(
        "named_struct",
        "name any any*",
        _named_struct,
        "A struct from alternating names and values.",
        "named_struct('a', 1)['a'] = 1",
    ),
    Function(
        "struct",
        "any any*",
        _struct,
        "A struct with fields `c0`, `c1`, …, or as named by AS.",
        "struct(1, 'x')['c1'] = 'x'",
        None,
        "row",
    ),
)
