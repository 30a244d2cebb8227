"""JSON messages: exactly one object each, with the columns that the pipeline file declares.

Spark's JSON parser is lenient where we are not: it reads the first object of a text and ignores the rest, makes doubles
of numbers, and rounds decimals. So it is given a text in which every number and boolean is a marked string (`_quoted`),
which it hands over as it was written, and whose last member is one of ours (`_END`): only if the object that was read
has it is the object all there is. Conversions (`sources._kafka_json_values`) do the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from streamling.errors import StreamlingError
from streamling.pipeline.typenames import parse_type
from streamling.sources import _kafka_json_plain as plain
from streamling.sources._kafka_failures import JSON_TEXT, JSON_VALUE, MESSAGE, Complaint, Instead
from streamling.sources._kafka_json_values import MARK, conversion, matches, written
from streamling.sources._kafka_keys import plain_key
from streamling.spark.sql_text import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

#: the last member of every object, of ours
_END: Final = "__streamling_end"
_SHOWN: Final = 200
_SPACE: Final = r"' \t\n\r'"
#: Numbers and booleans outside of strings. Each match begins where the one before ended, so that strings are skipped
#: as a whole; possessive quantifiers keep it linear, and off the stack. What is no JSON ends the chain, and the parser
#: finds it.
_SCALAR: Final = (
    r"\G((?:[^\"0-9\-tf]++|\"[^\"\\]*+(?:\\.[^\"\\]*+)*+\")*+)"
    r"(-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+\-]?[0-9]++)?+|true|false)(?=[ \t\n\r]*+[,}\]])"
)
_LAST: Final = f'"{_END}":true}}'
_CORRUPT: Final = "__streamling_corrupt"
#: options for the parser: what Spark allows and JSON does not
_STRICT: Final = (
    "map('mode', 'PERMISSIVE', 'allowSingleQuotes', 'false', 'allowNonNumericNumbers', 'false', "
    f"'columnNameOfCorruptRecord', '{_CORRUPT}')"
)
#: whether the quick way gave the values
_IS_PLAIN: Final = "__is_plain"
_ESCAPE: Final = "\\u"
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"


class JsonFormat:
    """Columns come in alphabetical order, all nullable; keys that are no columns are ignored."""

    key_is_required = True

    def __init__(self, schema: Mapping[str, str], instead: Instead) -> None:
        self._instead = instead
        self._schema = pa.schema([pa.field(name, parse_type(schema[name])) for name in sorted(schema)])
        self._quick = plain.is_quick(self._schema)

    def load(self) -> None:
        """Whether Spark can hold the types is known without asking anyone."""
        from streamling.types.spark import carrier

        for field in self._schema:
            try:
                carrier(field.type)
            except StreamlingError as error:
                raise error.context(f"schema.{field.name}") from None

    def learn(self, id: int, *, of_key: bool) -> None:
        raise AssertionError("JSON messages have no schema ids")

    def schema(self) -> pa.Schema:
        return self._schema

    def primary_key(self) -> tuple[str, ...]:
        return ()

    def key_text(self) -> Column:
        """Whatever the values are, keys are text."""
        return plain_key()

    def payloads(self) -> dict[str, Column]:
        """The text of the message, without what stands around the object."""
        from pyspark.sql import functions as f

        text = "CAST(value AS STRING)"
        trimmed = f"IF(startswith({text}, '{{') AND endswith({text}, '}}'), {text}, trim(BOTH {_SPACE} FROM {text}))"
        known = f"CASE WHEN value IS NULL THEN NULL WHEN is_valid_utf8({text}) THEN {trimmed}"
        return {"payload": f.expr(f"{known} ELSE {self._instead(JSON_TEXT, _excerpt(text))} END")}

    def checks(self) -> Sequence[Mapping[str, str]]:
        fields = ", ".join(f"{quoted(field.name)} STRING" for field in self._schema)
        schema = literal(f"{fields}, {_END} BOOLEAN, {_CORRUPT} STRING")
        parsed = f"from_json(concat(__quoted, '{_LAST}'), {schema}, {_STRICT})"
        bad = self._instead(JSON_TEXT, _excerpt("payload"))
        text = f"IF({_may_be_object('payload')}, {_open('payload')}, NULL)"
        steps = [
            {"__quoted": _quoted("__open")},
            {"__parsed": parsed},
            {"checked": f"IF(payload IS NULL, NULL, IF({_is_whole('__parsed')}, __parsed, {bad}))"},
        ]
        if not self._quick:
            return [{"__open": text}, *steps]
        steps[0] = {"__quoted": f"IF({_IS_PLAIN}, NULL, {_quoted('__open')})"}
        steps[2] = {
            "checked": f"IF(payload IS NULL OR {_IS_PLAIN}, NULL, IF({_is_whole('__parsed')}, __parsed, {bad}))"
        }
        quick = [{"__typed": self._typed()}, *([made] if (made := self._made()) else []), {_IS_PLAIN: self._is_plain()}]
        return [{"__open": text}, *quick, *steps, self._exact()]

    # the quick way; what it cannot do is done in a lambda, so that the plan's methods stay small enough to be compiled

    def _typed(self) -> str:
        fields = ", ".join(f"{quoted(field.name)} {plain.parsed_as(field.type)}" for field in self._schema)
        schema = literal(f"{fields}, {_END} BOOLEAN, {_CORRUPT} STRING")
        text = plain.with_quoted_decimals(self._schema, "__open")
        return f"from_json(concat({text}, '{_LAST}'), {schema}, {_STRICT})"

    def _made(self) -> dict[str, str]:
        """Values that take some work, each in a column of its own."""
        made = ((number, plain.value(field.type, _typed(field))) for number, field in enumerate(self._schema))
        return {f"__made{number}": value for number, value in made if value is not None}

    def _is_plain(self) -> str:
        made = self._made()
        exact = [
            f"__made{number} IS NOT NULL" if f"__made{number}" in made else plain.is_exact(field.type, _typed(field))
            for number, field in enumerate(self._schema)
        ]
        known = [f"({_typed(field)} IS NULL OR ({one}))" for field, one in zip(self._schema, exact, strict=True)]
        return f"coalesce({' AND '.join([_is_whole('__typed'), *known])}, false)"

    def _exact(self) -> Mapping[str, str]:
        values = ", ".join(
            f"{literal(field.name)}, {conversion(field.type, f'c.{quoted(field.name)}', 'NULL')}"
            for field in self._schema
        )
        made = f"get(transform(array(checked), c -> named_struct({values})), 0)"
        return {"__exact": f"IF(checked IS NULL, NULL, {made})"}

    def values(self) -> Sequence[tuple[pa.Field, str]]:
        return [(field, self._value(field)) for field in self._schema]

    def complaints(self, places: Mapping[str, str]) -> Sequence[Complaint]:
        value = f"{MESSAGE}.value"
        unread = f"NOT {_IS_PLAIN} AND checked IS NULL" if self._quick else "checked IS NULL"
        return [
            Complaint(f"{value} IS NOT NULL AND {unread}", JSON_TEXT, _excerpt(f"CAST({value} AS STRING)")),
            *(
                Complaint(f"{place} IS NOT NULL AND {places[field.name]} IS NULL", JSON_VALUE, _shown(field, place))
                for field in self._schema
                for place in (_place(field),)
            ),
        ]

    def _value(self, field: pa.Field) -> str:
        place = _place(field)
        bad = self._instead(JSON_VALUE, _shown(field, place))
        if not self._quick:
            return conversion(field.type, place, bad)
        made = f"__made{self._schema.get_field_index(field.name)}"
        quick = made if made in self._made() else _typed(field)
        exact = f"IF({place} IS NULL, NULL, coalesce(__exact.{quoted(field.name)}, {bad}))"
        return f"IF({_IS_PLAIN}, {quick}, {exact})"


def _typed(field: pa.Field) -> str:
    return f"__typed.{quoted(field.name)}"


def _place(field: pa.Field) -> str:
    return f"checked.{quoted(field.name)}"


def _shown(field: pa.Field, place: str) -> str:
    return f"concat({literal(field.name + ' = ')}, left({written(place)}, {_SHOWN}))"


def _excerpt(text: str) -> str:
    return f"IF(is_valid_utf8({text}), left({text}, {_SHOWN}), 'it is no UTF-8')"


def _is_whole(parsed: str) -> str:
    """SQL for whether an object is all there is and has no mistake; behind one in a value, the parser goes on."""
    return f"({parsed}.{_END} AND {parsed}.{_CORRUPT} IS NULL)"


def _quoted(document: str) -> str:
    """The document with its numbers and booleans as strings that begin with `MARK`."""
    marked = f'$1"{MARK}$2"'
    return f"regexp_replace({document}, {literal(_SCALAR)}, {literal(marked)})"


def _open(document: str) -> str:
    """The document without its last brace, ready for another member."""
    empty = matches(document, r"^[{][ \t\n\r]*+[}]\z")
    comma = f"IF(length({document}) < 100 AND {empty}, '', ',')"
    return f"concat(left({document}, length({document}) - 1), {comma})"


def _may_be_object(document: str) -> str:
    """What the parser does not look at: where the text begins and ends, our own words in it, and escapes of half a
    character, which Java would make a question mark of."""
    pair = literal(r"\\\\")
    unescaped = f"regexp_replace({document}, {pair}, ' ')"
    pairs_gone = f"regexp_replace({unescaped}, {literal(_HIGH + _LOW)}, ' ')"
    lone = f"contains({document}, {literal(_ESCAPE)}) AND {matches(pairs_gone, f'{_HIGH}|{_LOW}')}"
    ours = f"contains({document}, '{_END}') OR contains({document}, '{MARK}')"
    return f"startswith({document}, '{{') AND endswith({document}, '}}') AND NOT ({ours} OR ({lone}))"
