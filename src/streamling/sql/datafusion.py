"""DataFusion's functions in Spark's terms, where name, argument order or result differ.

``{0}`` stands for the first argument as Spark SQL. A list of templates is chosen from by the number of arguments, the
first for one. Everything not named here is the same in both, or is Spark's alone.
"""

from __future__ import annotations

import pyarrow as pa


def words(text: str) -> list[str]:
    return text.split()


_TIME = "CAST({} AS TIMESTAMP_NTZ)"
_FIRST_REMOVED = (
    "if(array_position({0}, {1}) = 0, {0}, concat(slice({0}, 1, CAST(array_position({0}, {1}) AS INT) - 1),"
    " slice({0}, CAST(array_position({0}, {1}) AS INT) + 1, size({0}))))"
)
_UP = "if(({0}) > ({1}), slice(array({0}), 1, 0), sequence({0}, {1}))"
_SLICE = "slice({0}, CAST({1} AS INT), greatest(CAST({2} AS INT) - CAST({1} AS INT) + 1, 0))"

#: array_x and list_x are the same function throughout
_ARRAYS: dict[str, str | list[str]] = {
    "append": "array_append(coalesce({0}, array()), {1})",
    "push_back": "array_append(coalesce({0}, array()), {1})",
    "prepend": "array_prepend(coalesce({1}, array()), {0})",
    "push_front": "array_prepend(coalesce({1}, array()), {0})",
    "concat": "concat({*})",
    "cat": "concat({*})",
    "contains": "array_contains({0}, {1})",
    "has": "array_contains({0}, {1})",
    "has_all": "(size(array_except({1}, {0})) = 0)",
    "has_any": "arrays_overlap({0}, {1})",
    "element": "try_element_at({0}, CAST({1} AS INT))",
    "extract": "try_element_at({0}, CAST({1} AS INT))",
    "empty": "(size({0}) = 0)",
    "indexof": "nullif(array_position({0}, {1}), 0)",
    "position": "nullif(array_position({0}, {1}), 0)",
    "positions": "filter(transform({0}, (e, i) -> if(e <=> {1}, CAST(i + 1 AS BIGINT), NULL)), e -> e IS NOT NULL)",
    "join": ["", "array_join({0}, {1})", "array_join({0}, {1}, {2})"],
    "to_string": ["", "array_join({0}, {1})", "array_join({0}, {1}, {2})"],
    "length": "CAST(size({0}) AS BIGINT)",
    "pop_back": "slice({0}, 1, greatest(size({0}) - 1, 0))",
    "pop_front": "slice({0}, 2, size({0}))",
    "remove": _FIRST_REMOVED,
    "remove_all": "array_remove({0}, {1})",
    "repeat": "array_repeat({0}, CAST({1} AS INT))",
    "replace_all": "transform({0}, e -> if(e <=> {1}, {2}, e))",
    "reverse": "reverse({0})",
    "slice": ["", "", _SLICE],
    "sort": ["sort_array({0})"],
    "sum": "aggregate({0}, CAST(0 AS BIGINT), (sum, e) -> sum + coalesce(e, 0))",
    "zip": "arrays_zip({*})",
    "add": "zip_with({0}, {1}, (a, b) -> a + b)",
    "subtract": "zip_with({0}, {1}, (a, b) -> a - b)",
    "scale": "transform({0}, e -> e * ({1}))",
}

TEMPLATES: dict[str, str | list[str]] = {
    **{f"{prefix}_{name}": template for prefix in ("array", "list") for name, template in _ARRAYS.items()},
    **{f"list_{name}": f"array_{name}({{*}})" for name in words("compact distinct except intersect max min union")},
    "make_array": "array({*})",
    "make_list": "array({*})",
    "empty": "(size({0}) = 0)",
    "cardinality": "CAST(cardinality({0}) AS BIGINT)",
    "generate_series": ["", _UP, "sequence({0}, {1}, {2})"],
    "range": ["slice(sequence(0, {0}), 1, CAST({0} AS INT))", f"array_except({_UP}, array({{1}}))"],
    "string_to_array": ["", "split({0}, '\\\\Q' || {1} || '\\\\E')"],
    "string_to_list": ["", "split({0}, '\\\\Q' || {1} || '\\\\E')"],
    "get_field": "({0})[{1}]",
    "row": "struct({*})",
    "starts_with": "startswith({0}, {1})",
    "ends_with": "endswith({0}, {1})",
    "ltrim": ["ltrim({0})", "ltrim({1}, {0})"],
    "rtrim": ["rtrim({0})", "rtrim({1}, {0})"],
    "isnan": "if({0} IS NULL, NULL, isnan({0}))",
    "strpos": "instr({0}, {1})",
    "substr_index": "substring_index({0}, {1}, CAST({2} AS INT))",
    "to_hex": "lower(hex({0}))",
    "today": "current_date()",
    "iszero": "(({0}) = 0)",
    "log": ["log10({0})", "log({0}, {1})"],
    "sha224": "unhex(sha2({0}, 224))",
    "sha256": "unhex(sha2({0}, 256))",
    "sha384": "unhex(sha2({0}, 384))",
    "sha512": "unhex(sha2({0}, 512))",
    "to_timestamp_seconds": _TIME.format("timestamp_seconds({0})"),
    "to_timestamp_millis": _TIME.format("timestamp_millis({0})"),
    "to_timestamp_micros": _TIME.format("timestamp_micros({0})"),
    "to_timestamp_nanos": _TIME.format("timestamp_micros(({0}) DIV 1000)"),
    "from_unixtime": _TIME.format("timestamp_seconds({0})"),
    "to_local_time": _TIME.format("{0}"),
    "to_unixtime": "unix_seconds(CAST({0} AS TIMESTAMP_LTZ))",
    "datepart": "date_part({0}, {1})",
    "datetrunc": "date_trunc({0}, {1})",
}

#: result types of what is above, where they do not depend on the arguments
TYPES: dict[str, pa.DataType] = {
    **dict.fromkeys(words("array_contains array_has array_has_all array_has_any array_empty empty"), pa.bool_()),
    **dict.fromkeys(words("starts_with ends_with iszero"), pa.bool_()),
    **dict.fromkeys(words("array_length cardinality array_position array_indexof to_unixtime array_sum"), pa.int64()),
    **dict.fromkeys(words("array_join array_to_string to_hex substr_index"), pa.string()),
    **dict.fromkeys(words("sha224 sha256 sha384 sha512"), pa.binary()),
    **dict.fromkeys(
        [f"to_timestamp_{unit}" for unit in ("seconds", "millis", "micros", "nanos")]
        + ["from_unixtime", "to_local_time"],
        pa.timestamp("us"),
    ),
    "string_to_array": pa.list_(pa.string()),
    "strpos": pa.int32(),
    "today": pa.date32(),
    "log": pa.float64(),
}

#: what Spark has no equal for → what to write instead
NOT_IN_SPARK: dict[str, str] = {
    "arrow_typeof": "typeof(x)",
    "regexp_match": "regexp_extract_all(text, pattern, 0)",
    "arrow_field": "typeof(x)",
    "arrow_metadata": "typeof(x)",
    "with_metadata": "x",
    "cast_to_type": "CAST(x AS type)",
    "try_cast_to_type": "TRY_CAST(x AS type)",
    "array_avg": "array_sum(list) / size(list)",
    "array_product": "aggregate(list, 1, (a, b) -> a * b)",
    "array_normalize": "a script",
    "array_distance": "a script",
    "cosine_distance": "a script",
    "dot_product": "a script",
    "inner_product": "a script",
    "file_row_index": "a column of the file",
    "date_bin": "date_trunc('hour', x)",
    "digest": "sha2(x, 256)",
    "array_dims": "size(list)",
    "array_ndims": "size(list)",
    "array_resize": "slice(list, 1, n)",
    "array_remove_n": "array_remove_all(list, x)",
    "array_replace": "array_replace_all(list, from, to)",
    "array_replace_n": "array_replace_all(list, from, to)",
    "array_any_value": "list[1]",
    "map_extract": "m['key']",
    "gcd": "a handler or script",
    "lcm": "a handler or script",
    "union_extract": "CAST(x AS TEXT)",
    "union_tag": "CAST(x AS TEXT)",
}
