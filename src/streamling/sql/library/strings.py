"""Text."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from streamling.sql.casts import as_text, is_binary
from streamling.sql.fragments import Args, call, fill, type_of
from streamling.sql.library.declaration import Function, Rewrite

_TEXT, _INT, _BOOL = pa.string(), pa.int32(), pa.bool_()

#: words end at everything except letters and digits; Spark's initcap considers only spaces. A letter beyond 16 bits
#: makes the pattern work with code points.
_INITCAP = (
    "array_join(transform(split({0}, '(?<=[^\\\\p{{L}}\\\\p{{N}}𝒳])'),"
    " __w -> concat(upper(substring(__w, 1, 1)), lower(substring(__w, 2)))), '')"
)
#: a start before the text reduces the length, as in the standard; Spark would count from the end
_SUBSTR = (
    "substring({0}, if({1} < 1, 1, {1}))",
    "substring({0}, if({1} < 1, 1, {1}), if({1} < 1, if({2} + {1} < 1, 0, {2} + {1} - 1), {2}))",
)
_CHR = "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')"
_PART = (
    "if({1} = '', CASE WHEN {2} IN (1, -1) THEN {0} WHEN {2} IS NOT NULL THEN left({0}, 0) END,"
    " split_part({0}, {1}, {2}))"
)


def _counted(spark: str, *templates: str) -> Rewrite:
    """Return the general template, unless all counts are positive literals, as in most calls: then Spark's own
    function, because the general form repeats its arguments, which multiplies in nested calls."""

    def rewrite(args: Args) -> exp.Expr:
        args = _as_texts(args)
        plain = all(isinstance(arg, exp.Literal) and not arg.is_string and int(arg.name) for arg in args[1:])
        return fill(f"{spark}({{*}})" if plain else templates[len(args) - 2], args)

    return rewrite


def _concat(args: Args) -> exp.Expr:
    """Concatenate like DataFusion, whose ``concat`` ignores NULLs; Spark's is NULL as soon as one argument is. Both
    concatenate lists."""
    types = [type_of(arg) or pa.null() for arg in args]
    if any(pa.types.is_list(type_) for type_ in types):
        return fill("concat({*})", args)
    if all(is_binary(type_) for type_ in types):
        return fill("concat({*})", [fill("coalesce({0}, X'')", [arg]) for arg in args], pa.binary())
    return call("concat", *(fill("coalesce({0}, '')", [as_text(arg)]) for arg in args))


def _as_texts(args: Args) -> Args:
    """Read binary as UTF-8 text; Spark's text functions would use its bytes."""
    return [as_text(arg) if is_binary(type_of(arg)) else arg for arg in args]


def _concat_ws(args: Args) -> exp.Expr:
    return call("concat_ws", args[0], *(as_text(arg) for arg in args[1:]))


def _joined(args: Args) -> pa.DataType | None:
    types = [type_of(arg) for arg in args]
    return _TEXT if all(type_ is not None and not pa.types.is_nested(type_) for type_ in types) else None


FUNCTIONS = (
    Function(
        "ascii", "text", "ascii({0})", "Code of the first character; 0 for an empty text.", "ascii('a') = 97", _INT
    ),
    Function("bit_length", "text", "bit_length({0})", "Length in bits, as UTF-8.", "bit_length('żó') = 32", _INT),
    Function(
        "btrim",
        "text text?",
        ("trim({0})", "btrim({0}, {1})"),
        "Removes spaces, or the given characters, from both ends.",
        "btrim('  a ') = 'a'\nbtrim('xxaxx', 'x') = 'a'",
        _TEXT,
        "trim",
    ),
    Function(
        "character_length",
        "text",
        lambda args: fill("length({0})", _as_texts(args)),
        "Number of characters.",
        "character_length('żółw') = 4",
        _INT,
        "char_length length charlength",
    ),
    Function("chr", "long", _CHR, "The character with this code.", "chr(8364) = '€'", _TEXT),
    Function(
        "concat",
        "any any*",
        _concat,
        "Concatenates the values as text, ignoring NULLs. Also concatenates lists.",
        "concat('a', NULL, 1) = 'a1'",
        _joined,
    ),
    Function(
        "concat_ws",
        "text any*",
        _concat_ws,
        "Joins the values with a separator, ignoring NULLs.",
        "concat_ws('-', 'a', NULL, 'b') = 'a-b'",
        _TEXT,
    ),
    Function(
        "contains",
        "text text",
        "contains({0}, {1})",
        "Whether the first text contains the second.",
        "contains('abc', 'b')",
        _BOOL,
    ),
    Function(
        "ends_with",
        "text text",
        "endswith({0}, {1})",
        "Whether the text ends with a suffix.",
        "ends_with('abc', 'c')",
        _BOOL,
        "endswith",
    ),
    Function(
        "find_in_set",
        "text text",
        "find_in_set({0}, {1})",
        "Position in a comma-separated text; 0 if it is not found.",
        "find_in_set('b', 'a,b,c') = 2",
        _INT,
    ),
    Function(
        "initcap",
        "text",
        _INITCAP,
        "Capitalizes the first letter of each word; the rest is lower case.",
        "initcap('ab-CD ef') = 'Ab-Cd Ef'",
        _TEXT,
    ),
    Function(
        "left",
        "text int",
        _counted("left", "if({1} < 0, substring({0}, 1, greatest(length({0}) + {1}, 0)), left({0}, {1}))"),
        "The first n characters; if negative, all but the last n.",
        "left('abc', 2) = 'ab'\nleft('abc', -1) = 'ab'",
        _TEXT,
    ),
    Function(
        "levenshtein",
        "text text",
        "levenshtein({0}, {1})",
        "Edit distance between two texts.",
        "levenshtein('kitten', 'sitting') = 3",
        _INT,
    ),
    Function("lower", "text", "lower({0})", "Converts to lower case.", "lower('ÀB') = 'àb'", _TEXT, "lowercase"),
    Function(
        "lpad",
        "text int text?",
        ("lpad({0}, {1})", "lpad({0}, {1}, {2})"),
        "Pads (or truncates) on the left to a length, with spaces or another text.",
        "lpad('7', 3, '0') = '007'",
        _TEXT,
    ),
    Function(
        "ltrim",
        "text text?",
        ("ltrim({0})", "ltrim({1}, {0})"),
        "Removes spaces, or the given characters, from the start.",
        "ltrim('xxa', 'x') = 'a'",
        _TEXT,
    ),
    Function("octet_length", "text", "octet_length({0})", "Length in bytes, as UTF-8.", "octet_length('żó') = 4", _INT),
    Function(
        "overlay",
        "text text int int?",
        ("overlay({0}, {1}, {2})", "overlay({0}, {1}, {2}, {3})"),
        "Replaces a part of the text: `overlay(text PLACING text FROM int [FOR int])`.",
        "overlay('abcdef' PLACING 'xx' FROM 2 FOR 3) = 'axxef'",
        _TEXT,
    ),
    Function("repeat", "text int", "repeat({0}, {1})", "Repeats the text.", "repeat('ab', 2) = 'abab'", _TEXT),
    Function(
        "replace",
        "text text text",
        "replace({0}, {1}, {2})",
        "Replaces all occurrences.",
        "replace('aba', 'b', 'x') = 'axa'",
        _TEXT,
    ),
    Function(
        "reverse",
        "text",
        lambda args: fill("reverse({0})", _as_texts(args)),
        "Characters, or elements of a list, in reverse order.",
        "reverse('abc') = 'cba'",
        lambda args: type_of(_as_texts(args)[0]),
    ),
    Function(
        "right",
        "text int",
        _counted("right", "if({1} < 0, substring({0}, CAST(1 - CAST({1} AS BIGINT) AS INT)), right({0}, {1}))"),
        "The last n characters; if negative, all but the first n.",
        "right('abc', 2) = 'bc'\nright('abc', -1) = 'bc'",
        _TEXT,
    ),
    Function(
        "rpad",
        "text int text?",
        ("rpad({0}, {1})", "rpad({0}, {1}, {2})"),
        "Pads (or truncates) on the right to a length, with spaces or another text.",
        "rpad('7', 3, '0') = '700'",
        _TEXT,
    ),
    Function(
        "rtrim",
        "text text?",
        ("rtrim({0})", "rtrim({1}, {0})"),
        "Removes spaces, or the given characters, from the end.",
        "rtrim('axx', 'x') = 'a'",
        _TEXT,
    ),
    Function(
        "split_part",
        "text text int",
        _PART,
        "The n-th part between separators; from the end if negative.",
        "split_part('a,b,c', ',', 2) = 'b'\nsplit_part('a,b,c', ',', -1) = 'c'",
        _TEXT,
    ),
    Function(
        "starts_with",
        "text text",
        "startswith({0}, {1})",
        "Whether the text starts with a prefix.",
        "starts_with('abc', 'a')",
        _BOOL,
        "startswith",
    ),
    Function(
        "strpos",
        "text text",
        "instr({0}, {1})",
        "Position of the second text in the first, from 1; 0 if it is not found.",
        "strpos('abc', 'c') = 3\nposition('c' IN 'abc') = 3",
        _INT,
        "position",
    ),
    Function(
        "substr",
        "text int int?",
        _counted("substring", *_SUBSTR),
        "A part of the text, from a position (1 is the first) and with a length.",
        "substr('abcd', 2) = 'bcd'\nsubstr('abcd', 2, 2) = 'bc'\nsubstr('abcd', 0, 2) = 'a'",
        _TEXT,
        "substring",
    ),
    Function(
        "substr_index",
        "text text int",
        "substring_index({0}, {1}, {2})",
        "The text before the n-th separator; from the end if negative.",
        "substr_index('a.b.c', '.', 2) = 'a.b'",
        _TEXT,
        "substring_index",
    ),
    Function(
        "to_hex", "long", "lower(hex({0}))", "Hexadecimal digits of a number.", "to_hex(255) = 'ff'", _TEXT, "hex"
    ),
    Function("upper", "text", "upper({0})", "Converts to upper case.", "upper('àb') = 'ÀB'", _TEXT, "uppercase"),
    Function("uuid", "", "uuid()", "A random UUID (version 4) for every row.", "length(uuid()) = 36", _TEXT),
)
