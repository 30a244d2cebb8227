"""The Rust implementation's own functions of lists, maps and identifiers."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.fragments import Args, UnsupportedSql, fill, literal_text, type_of
from streamling.sql.library.declaration import Function, Kernel, Rewrite, element_of, like

_TEXT = pa.string()
_MILLIS = "lpad(lower(hex(unix_millis(current_timestamp()))), 12, '0')"
_UUID7 = (
    f"concat_ws('-', substring({_MILLIS}, 1, 8), substring({_MILLIS}, 9, 4),"
    " concat('7', substring(uuid(), 16, 3)), substring(uuid(), 20))"
)


def _field(args: Args) -> str:
    """Return a field of the elements, as ``__e.name``."""
    name = literal_text(args[1])
    if name is None:
        raise UnsupportedSql("the field must be a text literal", "such as array_filter(list, 'kind', 'x')")
    type_ = type_of(args[0])
    struct = type_.value_type if type_ is not None and pa.types.is_list(type_) else None
    if struct is not None and pa.types.is_struct(struct) and struct.get_field_index(name) < 0:
        listed = ", ".join(field.name for field in struct)
        raise UnsupportedSql(f"the elements have no field '{name}'", f"fields: {listed}")
    return "__e." + quoted(name).replace("{", "{{").replace("}", "}}")


def _filter(template: str) -> Rewrite:
    return lambda args: fill(template.replace("{field}", _field(args)), args)


def _zip(args: Args) -> exp.Expr:
    """Zip lists; different lengths are an error in the data."""
    if len(args) > 4:
        raise UnsupportedSql("_gs_zip_arrays() takes 2 to 4 lists", "or use arrays_zip(list, …)")
    fields = ", ".join(
        f"'f{place}', " + ("__e" if not place else f"get({{{place}}}, __i)") for place in range(len(args))
    )
    uneven = " OR ".join(f"size({{{place}}}) != size({{0}})" for place in range(1, len(args)))
    return fill(
        f"if({uneven}, raise_error('the lists have different lengths'),"
        f" transform({{0}}, (__e, __i) -> named_struct({fields})))",
        args,
    )


def _enumerated(args: Args) -> pa.DataType | None:
    element = element_of(0)(args)
    return None if element is None else pa.list_(pa.struct([("index", pa.int64()), ("value", element)]))


_MATCHES = "filter({0}, __e -> {field} <=> {2})"

FUNCTIONS = (
    Function(
        "_gs_generate_series",
        "long long long?",
        (
            "if({0} > {1}, array_repeat(0L, 0), sequence({0}, {1}))",
            "if(sign({1} - {0}) * sign({2}) < 0, array_repeat(0L, 0), sequence({0}, {1}, {2}))",
        ),
        "Integers up to and including the second argument, with a step.",
        "_gs_generate_series(1, 5, 2) = [1, 3, 5]",
        pa.list_(pa.int64()),
    ),
    Function(
        "_gs_json_objects_to_clickhouse_tuples",
        "text texts",
        Kernel("json_text.clickhouse_tuples", "string"),
        "Converts a JSON array of objects to an array of tuples in ClickHouse's format; `[]` for NULL.",
        "_gs_json_objects_to_clickhouse_tuples('[{\"a\":\"x\",\"b\":1}]', ['a', 'b', 'c']) = '[(''x'', 1, null)]'",
        _TEXT,
    ),
    Function(
        "_gs_map_to_array_struct",
        "map",
        "map_entries({0})",
        "The entries of a map as structs of `key` and `value`.",
        "_gs_map_to_array_struct(map(['a'], ['b']))[1]['value'] = 'b'",
    ),
    Function(
        "_gs_split_string_to_array",
        "text text?",
        ("split({0}, ' ', -1)", "if({1} = '', array({0}), split({0}, concat('\\\\Q', {1}, '\\\\E'), -1))"),
        "The parts between separators, by default spaces.",
        "_gs_split_string_to_array('a-b', '-') = ['a', 'b']",
        pa.list_(_TEXT),
    ),
    Function(
        "_gs_zip_arrays",
        "list list list? list?",
        _zip,
        "Corresponding elements of lists of the same length, as structs with fields `f0`, `f1`, ….",
        "_gs_zip_arrays([1], ['a'])[1]['f1'] = 'a'",
    ),
    Function(
        "array_enumerate",
        "list",
        "transform({0}, (__v, __i) -> named_struct('index', CAST(__i AS BIGINT), 'value', __v))",
        "The elements with their index, from 0.",
        "array_enumerate(['a'])[1]['index'] = 0",
        _enumerated,
    ),
    Function(
        "array_filter",
        "structs name any",
        _filter(_MATCHES),
        "The structs whose field has this value.",
        "size(array_filter([named_struct('a', 1), named_struct('a', 2)], 'a', 2)) = 1",
        like(0),
    ),
    Function(
        "array_filter_first",
        "structs name any",
        _filter(f"try_element_at({_MATCHES}, 1)"),
        "The first struct whose field has this value, or NULL.",
        "array_filter_first([named_struct('a', 1)], 'a', 1)['a'] = 1",
        element_of(0),
    ),
    Function(
        "array_filter_in",
        "structs name list",
        _filter("filter({0}, __e -> array_contains({2}, {field}))"),
        "The structs whose field has one of these values.",
        "size(array_filter_in([named_struct('a', 'x'), named_struct('a', 'y')], 'a', ['y', 'z'])) = 1",
        like(0),
    ),
    Function(
        "array_struct_field",
        "structs name",
        _filter("transform({0}, __e -> CAST({field} AS STRING))"),
        "One field of every struct, as text.",
        "array_struct_field([named_struct('a', 'x')], 'a') = ['x']",
        pa.list_(_TEXT),
    ),
    Function("to_large_list", "list", "{0}", "The list unchanged.", "to_large_list([1]) = [1]", like(0)),
    Function(
        "uuid7",
        "",
        _UUID7,
        "A UUID (version 7, from the time of the batch) for every row.",
        "regexp_like(uuid7(), '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$')",
        _TEXT,
    ),
)
