"""Translates Spark's errors: they refer to the user's SQL and names, without traces and advice about Spark's
settings."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from streamling.errors import StreamlingError
from streamling.spark.errors import is_from_spark, spark_error
from streamling.sql.problems import TextSpan

if TYPE_CHECKING:
    from streamling.sql.statement import Statement

#: ends the text of an error that the rewritten SQL itself raises: what the user wrote there
_PLACE = re.compile(r"(.*) in ‹(.*)›", re.DOTALL)
_GUARD = "guard the divisor, for example a / nullif(b, 0)"
_WIDER = "cast to a wider type first, for example DECIMAL(38, 0) or DOUBLE"
_WIDE = "cast to more digits first, for example DECIMAL(76, 18), or use TRY_CAST to get NULL instead"
_TRY = "TRY_CAST returns NULL instead"
#: what Java says of a number that one of Spark's functions cannot convert, without a condition
_ARITHMETIC = "a number is too large, or has too many digits, for a function that Spark calls with it"
_EXACT = "for times, write to_timestamp(x), to_timestamp_millis(x) or to_timestamp_micros(x)"
_SAME_TYPE = "cast one side to the type of the other"

#: Spark's condition, or the part before its dot → our message over Spark's parameters, and the remedy
_SENTENCES: dict[str, tuple[str, str | None]] = {
    "DIVIDE_BY_ZERO": ("division by zero", _GUARD),
    "REMAINDER_BY_ZERO": ("division by zero in %", _GUARD),
    "INTERVAL_DIVIDED_BY_ZERO": ("division of an interval by zero", _GUARD),
    "INTERVAL_ARITHMETIC_OVERFLOW": ("an interval is too long", None),
    "INVALID_FORMAT.MISMATCH_INPUT": (
        "{input} does not have the format {format}",
        "try_to_number returns NULL instead",
    ),
    "ARITHMETIC_OVERFLOW": ("a number is too large for its type", _WIDER),
    "BINARY_ARITHMETIC_OVERFLOW": ("{value1} {symbol} {value2} is too large for its type", _WIDER),
    "CAST_INVALID_INPUT": ("{expression} cannot be converted to {targetType}", _TRY),
    "CAST_OVERFLOW": ("{value} does not fit into {targetType}", _TRY),
    "NUMERIC_VALUE_OUT_OF_RANGE": ("{value} does not fit into DECIMAL({precision}, {scale})", _WIDE),
    "NUMERIC_OUT_OF_SUPPORTED_RANGE": ("{value} has more than 38 digits", _WIDE),
    "INVALID_ARRAY_INDEX": ("there is no element {indexValue} in a list of {arraySize}", None),
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": (
        "there is no element {indexValue} in a list of {arraySize}",
        "try_element_at returns NULL instead",
    ),
    "INVALID_NUMERIC_LITERAL_RANGE": ("the number {rawStrippedQualifier} does not fit into {typeName}", None),
    "INVALID_INDEX_OF_ZERO": ("there is no element 0: lists start at 1, or at -1 from the end", None),
    "DATETIME_FIELD_OUT_OF_BOUNDS": ("there is no such date: {rangeMessage}", None),
    "INVALID_TYPED_LITERAL": ("{value} is not a {valueType}", None),
    "USER_RAISED_EXCEPTION": ("{errorMessage}", None),
    "WRONG_NUM_ARGS": ("{functionName}() takes {expectedNum} argument(s), not {actualNum}", None),
    "UNRESOLVED_ROUTINE": ("there is no function {routineName}()", None),
    "UNRESOLVED_COLUMN": ("there is no column {objectName}", None),
    "FIELD_NOT_FOUND": ("there is no field {fieldName}, only {fields}", None),
    "INVALID_EXTRACT_BASE_FIELD_TYPE": ("{base} is {other} and has no fields", None),
    "UNSUPPORTED_DATATYPE": ("there is no type {typeName}", None),
    "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF": (
        "a list function cannot use a value that is computed in Python, such as a decimal of more than 38 digits",
        "compute the value in a sql transform before this one",
    ),
    "_LEGACY_ERROR_TEMP_0029": ("{literal} mixes months with days or smaller units", "add two intervals"),
    "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES": ("{left} and {right} cannot be combined", _SAME_TYPE),
    "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE": ("this takes {inputType}, not {actualDataType}", None),
    "DATATYPE_MISMATCH.DATA_DIFF_TYPES": ("the values have different types: {dataType}", _SAME_TYPE),
    "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE": ("{inputSql} is {inputType}, expected {requiredType}", None),
    "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION": ("there is no cast from {srcType} to {targetType}", None),
    "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN": ("WHERE needs a condition, not {type}", None),
    "INCOMPATIBLE_COLUMN_TYPE": ("the branches of the UNION ALL have different types", _SAME_TYPE),
}


def location_suffix(where: str) -> str:
    """Return the end of a text for ``raise_error`` that names its location, ``where`` in the user's SQL."""
    return f" in ‹{where}›"


def translate_sql_error(error: BaseException, node: str, statement: Statement) -> StreamlingError:
    """Return ``error``, raised while the SQL of ``node`` was planned or run, translated for the user. What does not
    come from Spark's SQL is an internal error with its cause."""
    if isinstance(error, StreamlingError):
        return error
    found = next(_spark_errors(error), None)
    if found is None and (detail := _arithmetic(error)) is not None:
        return StreamlingError.user(f"{_ARITHMETIC} ({detail})", remedy=_EXACT)
    if found is None:
        what = f"the SQL of '{node}' could not be run"
        return spark_error(error, what) if is_from_spark(error) else StreamlingError(what, cause=error)
    message, remedy = _sentence(found)
    fragment = next((context.fragment() for context in _contexts(found)), "")
    if noted := _PLACE.fullmatch(message):
        message, fragment = noted.groups()
        remedy = _GUARD if message == "division by zero" else remedy
    span = _span_of(statement, fragment) if fragment else None
    if span is None:
        return StreamlingError.user(message, remedy=remedy)
    problem = statement.text.problem(span, "")
    note = f" (line {problem.line}, column {problem.column} of the SQL)"
    failure = StreamlingError.user(f"{message}{note}\n{problem.excerpt}", remedy=remedy)
    return failure.about("sql", problem.line, problem.column, note)


def is_sql_error(error: BaseException) -> bool:
    """Return whether Spark blames the SQL text or the rows."""
    found = next(_spark_errors(error), None)
    if found is None:
        return _arithmetic(error) is not None
    return _known(found.getCondition()) is not None or bool(_contexts(found))


def find_location(error: BaseException) -> str | None:
    """Return the location that `location_suffix` put at the end of an error."""
    found = next(_spark_errors(error), None)
    noted = None if found is None else _PLACE.fullmatch(_sentence(found)[0])
    return None if noted is None else location_suffix(noted[2])


def excerpts(error: BaseException) -> list[str]:
    """Return the parts of the SQL texts, as sent to Spark, that an error is about. Spark shortens long lines."""
    texts = []
    for found in _spark_errors(error):
        for context in _contexts(found):
            lines = str(context.summary()).split("\n")
            shown = (line for line in lines if line and not line.startswith("==") and line.strip("^ "))
            texts += [line.removeprefix("...").removesuffix("...") for line in shown]
    return texts


def _spark_errors(error: BaseException) -> Iterator[Any]:
    """Yield Spark's errors with a condition in a chain of causes, outermost first."""
    from pyspark.errors import PySparkException

    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, PySparkException) and seen.getCondition():
            yield seen
        seen = seen.__cause__


def _arithmetic(error: BaseException) -> str | None:
    """Return the message of an error of Java's own arithmetic, such as ``Rounding necessary``."""
    from pyspark.errors import ArithmeticException

    return str(error).partition("\n")[0] if isinstance(error, ArithmeticException) else None


def _contexts(error: Any) -> list[Any]:
    try:
        return list(error.getQueryContext())
    except Exception:  # the JVM may be gone by now
        return []


def _sentence(error: Any) -> tuple[str, str | None]:
    condition, parameters = error.getCondition(), error.getMessageParameters() or {}
    known = _known(condition)
    if known is not None:
        sentence, remedy = known
        return sentence.format_map(_Readable(parameters)), remedy
    remedy = f"see {condition} in Spark's documentation of error conditions"
    return f"{_without_spark(str(error))} ({condition})", remedy


def _known(condition: str | None) -> tuple[str, str | None] | None:
    name = condition or ""
    return _SENTENCES.get(name) or _SENTENCES.get(name.partition(".")[0])


class _Readable(dict[str, str]):
    """Spark's parameters without its quoting; a missing one does not break the message."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        super().__init__({key: value.strip('"').replace("`", "") for key, value in parameters.items()})

    def __missing__(self, key: str) -> str:
        return "…"


def _without_spark(message: str) -> str:
    """Return a Spark message without a translation, reduced to what it says about the query."""
    text = message.strip().partition("\n")[0].partition("SQLSTATE")[0].replace("`", "")
    text = text.partition("] ")[2] if text.startswith("[") else text
    sentences = [part for part in text.split(". ") if "spark." not in part]
    return ". ".join(sentences).strip().rstrip(".") or "Spark could not run the SQL"


def _span_of(statement: Statement, fragment: str) -> TextSpan | None:
    """Return the expression of the user's SQL that ``fragment`` of the rewritten one comes from: the one whose text is
    most similar. Rewriting changes quotes, case and names of functions."""
    wanted = _normal(fragment)
    best: tuple[float, TextSpan | None] = (0.5, None)
    for part in statement.query.find_all(exp.Condition, exp.Cast):
        span = statement.text.whole(part)
        if span is None:
            continue
        for spelling in (statement.sql[span.start : span.end], part.sql("spark", comments=False)):
            likeness = difflib.SequenceMatcher(None, wanted, _normal(spelling)).ratio()
            best = max(best, (likeness, span), key=lambda pair: pair[0])
    return best[1]


def _normal(text: str) -> str:
    return "".join(text.lower().replace("`", "").replace('"', "").replace(" div ", "/").split())
