"""JSON. Paths have the steps ``$``, ``.key``, ``[n]`` and ``['key']``. Numbers keep their digits."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, UnsupportedSql, fill, literal_text, type_of
from streamling.sql.library.declaration import Function, Kernel, Rewrite

_TEXT, _BOOL = pa.string(), pa.bool_()
_EMBED = Kernel("json_text.embedded", "string")
_QUERY, _VALUE = Kernel("json_path.query", "string"), Kernel("json_path.value", "string")
_EXISTS, _IS = Kernel("json_path.exists", "boolean"), Kernel("json_text.is_json", "boolean")
_TRY = Kernel("json_text.compact", "string")

#: any value: converted as the only element of a list, without the list's brackets
_STRING = (
    "if({0} IS NULL, NULL, substring(to_json(array({0}), map('ignoreNullFields', 'false')), 2,"
    " length(to_json(array({0}), map('ignoreNullFields', 'false'))) - 2))"
)
_WRAPPERS = ("WITHOUT ARRAY", "WITH CONDITIONAL ARRAY", "WITH UNCONDITIONAL ARRAY")
_INSTEAD_OF_JSON = ("NULL", "EMPTY ARRAY", "EMPTY OBJECT", "ERROR")
_INSTEAD_OF_VALUE = ("NULL", "ERROR", "DEFAULT")
_CONSTANTS = {
    "NULL": "NULL",
    "UNKNOWN": "NULL",
    "TRUE": "true",
    "FALSE": "false",
    "EMPTY ARRAY": "'[]'",
    "EMPTY OBJECT": "'{{}}'",
}
_TROUBLE = {"empty": "there is nothing at the JSON path", "error": "the text is not JSON"}


def _json(arg: exp.Expr) -> exp.Expr:
    """Return an argument as JSON: texts that contain an object or a list are parsed."""
    if pa.types.is_string(type_of(arg) or pa.null()):
        return fill(f"{_EMBED.spark_name}({{0}})", [arg])
    return fill(_STRING, [arg])


def _array(nulls: bool) -> Rewrite:
    def rewrite(args: Args) -> exp.Expr:
        if not args:
            return exp.Literal.string("[]")
        replacement = ", 'null'" if nulls else ""
        parts = fill("array({*})", [_json(arg) for arg in args])
        return fill(f"concat('[', array_join({{0}}, ','{replacement}), ']')", [parts])

    return rewrite


def _object(nulls: bool) -> Rewrite:
    missing = "'null'" if nulls else "NULL"

    def rewrite(args: Args) -> exp.Expr:
        if len(args) % 2:
            raise UnsupportedSql(
                "json_object() takes keys and values alternately", "write json_object('key', value, …)"
            )
        pairs = [
            fill(
                "concat(coalesce({0}, raise_error('a key of a JSON object is NULL')), ':', coalesce({1}, "
                + missing
                + "))",
                [fill(_STRING, [fill("CAST({0} AS STRING)", [key])]), _json(value)],
            )
            for key, value in zip(args[::2], args[1::2], strict=True)
        ]
        return fill("concat('{{', array_join(array({*}), ','), '}}')", pairs) if pairs else exp.Literal.string("{}")

    return rewrite


def _word(arg: exp.Expr, allowed: tuple[str, ...], what: str) -> exp.Expr:
    word = literal_text(arg)
    if isinstance(arg, exp.Null):
        word = "NULL"
    if word is None or word.upper() not in allowed:
        raise UnsupportedSql(
            f"{arg.sql()} is not a {what} of a JSON function", f"use {', '.join(repr(w) for w in allowed)}"
        )
    return exp.Literal.string(word.upper())


def _path(arg: exp.Expr) -> exp.Expr:
    """Check a literal path now."""
    from streamling.sql.kernels.json_path import steps

    written = literal_text(arg)
    if written is not None and steps(written) is None:
        raise UnsupportedSql(f"{arg.sql()} is not a JSON path", "a path is $ followed by .key, [n] or ['key']")
    return arg


def _otherwise(word: exp.Expr, kind: str, default: exp.Expr | None = None) -> exp.Expr:
    """Return the replacement of a missing result."""
    if word.name == "DEFAULT" and default is not None:
        return fill("CAST({0} AS STRING)", [default])
    if word.name == "ERROR":
        return fill(f"raise_error('{_TROUBLE[kind]}')", [])
    return fill(_CONSTANTS[word.name], [])


def _answered(found: exp.Expr, json: exp.Expr, empty: exp.Expr, error: exp.Expr) -> exp.Expr:
    """Return ``found``; if there is no value: ``empty`` for JSON, ``error`` for other text, NULL for NULL."""
    if "NULL" == empty.sql() == error.sql():
        return found
    template = (
        "CASE WHEN {0} IS NOT NULL THEN {0} WHEN {1} IS NULL THEN NULL WHEN "
        + _IS.spark_name
        + "({1}, 'VALUE') THEN {2} ELSE {3} END"
    )
    return fill(template, [found, json, empty, error])


def _query(args: Args) -> exp.Expr:
    if len(args) not in (2, 6):
        raise UnsupportedSql("json_query() takes 2 or 6 arguments", "write json_query(json, path)")
    rest = args[2:] or [exp.Literal.string(word) for word in ("STRING", "WITHOUT ARRAY", "NULL", "NULL")]
    _word(rest[0], ("STRING", "ARRAY"), "type")
    found = fill(f"{_QUERY.spark_name}({{*}})", [args[0], _path(args[1]), _word(rest[1], _WRAPPERS, "wrapper")])
    empty, error = (_word(arg, _INSTEAD_OF_JSON, "replacement") for arg in rest[2:])
    return _answered(found, args[0], _otherwise(empty, "empty"), _otherwise(error, "error"))


def _value(args: Args) -> exp.Expr:
    if len(args) not in (2, 7):
        raise UnsupportedSql("json_value() takes 2 or 7 arguments", "write json_value(json, path)")
    rest = args[2:] or [exp.Literal.string("STRING"), *[exp.Literal.string("NULL"), exp.null()] * 2]
    _word(rest[0], ("STRING", "VARCHAR", "CHAR"), "type")
    found = fill(f"{_VALUE.spark_name}({{*}})", [args[0], _path(args[1])])
    empty = _otherwise(_word(rest[1], _INSTEAD_OF_VALUE, "replacement"), "empty", rest[2])
    return _answered(
        found, args[0], empty, _otherwise(_word(rest[3], _INSTEAD_OF_VALUE, "replacement"), "error", rest[4])
    )


def _exists(args: Args) -> exp.Expr:
    given = args[2] if len(args) > 2 else exp.Literal.string("FALSE")
    otherwise = _otherwise(_word(given, ("FALSE", "TRUE", "UNKNOWN", "ERROR"), "replacement"), "error")
    found = fill(f"{_EXISTS.spark_name}({{*}})", [args[0], _path(args[1])])
    return fill("if({0} IS NULL, NULL, coalesce({1}, {2}))", [args[0], found, otherwise])


def _compact(args: Args) -> exp.Expr:
    wrong = fill(
        ("if({0} IS NULL OR trim({0}) = '', NULL, raise_error(concat('this is not JSON: ', left({0}, 100))))"), args[:1]
    )
    return fill(f"coalesce({_TRY.spark_name}({{0}}), {{1}})", [args[0], wrong])


def _is_json(args: Args) -> exp.Expr:
    kind = args[1] if len(args) > 1 else exp.Literal.string("VALUE")
    return fill(f"{_IS.spark_name}({{*}})", [args[0], _word(kind, ("VALUE", "OBJECT", "ARRAY", "SCALAR"), "kind")])


FUNCTIONS = (
    Function(
        "is_json",
        "text name?",
        _is_json,
        "Whether the text is JSON: a 'VALUE', 'OBJECT', 'ARRAY' or 'SCALAR'. False for NULL.",
        "is_json('[1]', 'ARRAY')\nis_json('x') = false",
        _BOOL,
        uses=(_IS,),
    ),
    Function(
        "json",
        "text",
        _compact,
        "Validated JSON without spaces; NULL for an empty text, an error for invalid JSON.",
        "json('{\"a\": 1.50}') = '{\"a\":1.50}'",
        _TEXT,
        uses=(_TRY,),
    ),
    Function(
        "json_array",
        "any*",
        _array(True),
        "The values as a JSON array; NULL becomes `null`.",
        "json_array(1, 'a', NULL, '[2]') = '[1,\"a\",null,[2]]'",
        _TEXT,
        uses=(_EMBED,),
    ),
    Function(
        "json_array_absent_on_null",
        "any*",
        _array(False),
        "The values as a JSON array, ignoring NULLs.",
        "json_array_absent_on_null('a', NULL) = '[\"a\"]'",
        _TEXT,
        uses=(_EMBED,),
    ),
    Function(
        "json_exists",
        "text path name?",
        _exists,
        "Whether there is a value at the path. For invalid JSON: 'FALSE', 'TRUE', 'UNKNOWN' or 'ERROR'.",
        "json_exists('{\"a\":1}', '$.a')\njson_exists('{\"a\":1}', '$.b') = false",
        _BOOL,
        uses=(_EXISTS,),
    ),
    Function(
        "json_object",
        "any*",
        _object(True),
        "Alternating keys and values as a JSON object; NULL becomes `null`.",
        "json_object('a', 1, 'b', 'x') = '{\"a\":1,\"b\":\"x\"}'\njson_object('a', NULL) = '{\"a\":null}'",
        _TEXT,
        uses=(_EMBED,),
    ),
    Function(
        "json_object_absent_on_null",
        "any*",
        _object(False),
        "Alternating keys and values as a JSON object, ignoring NULLs.",
        "json_object_absent_on_null('a', 'x', 'b', NULL) = '{\"a\":\"x\"}'",
        _TEXT,
        uses=(_EMBED,),
    ),
    Function(
        "json_query",
        "text path name? name? name? name?",
        _query,
        "The object or array at the path, as JSON, or NULL. Optional: type, wrapper, on empty, on error.",
        "json_query('{\"a\":{\"b\": [1, 2]}}', '$.a') = '{\"b\":[1,2]}'\njson_query('{\"a\":1}', '$.a') IS NULL",
        _TEXT,
        uses=(_QUERY, _IS),
    ),
    Function(
        "json_quote",
        "text",
        Kernel("json_text.quote", "string"),
        "Text as a JSON string, in ASCII.",
        "json_quote('a/ż') = '\"a\\/\\u017c\"'",
        _TEXT,
    ),
    Function(
        "json_string",
        "any",
        _STRING,
        "Any value as JSON.",
        "json_string(named_struct('a', 'x')) = '{\"a\":\"x\"}'\njson_string('a') = '\"a\"'",
        _TEXT,
    ),
    Function(
        "json_unquote",
        "text",
        Kernel("json_text.unquote", "string"),
        "The text of a JSON string; other text unchanged.",
        "json_unquote('\"a\"') = 'a'",
        _TEXT,
    ),
    Function(
        "json_value",
        "text path name? name? name? name? name?",
        _value,
        ("The scalar at the path, as text, or NULL. Optional: type, on empty, its default, on error, its default."),
        "json_value('{\"a\": {\"b\": [1.10]}}', '$.a.b[0]') = '1.10'\n"
        "json_value('{\"a\":null}', '$.a', 'STRING', 'DEFAULT', 'none', 'NULL', NULL) = 'none'",
        _TEXT,
        uses=(_VALUE, _IS),
    ),
    Function("parse_json", "text bool?", _compact, "As `json`.", "parse_json('[1, 2]') = '[1,2]'", _TEXT, uses=(_TRY,)),
    Function(
        "try_parse_json",
        "text bool?",
        lambda args: fill(f"{_TRY.spark_name}({{0}})", args[:1]),
        "Like `json`, but NULL for invalid JSON.",
        "try_parse_json('[') IS NULL",
        _TEXT,
        uses=(_TRY,),
    ),
)
