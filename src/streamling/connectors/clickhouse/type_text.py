"""Names of ClickHouse types as trees: in ``Nullable(DateTime64(3, 'UTC'))`` a type is the argument of another."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from streamling.connectors.clickhouse.server import identifier, literal


class InvalidTypeError(ValueError):
    """The text is not the name of a type. The message says what is wrong with it."""


@dataclass(frozen=True)
class ClickHouseType:
    """A type: its name and what stands in parentheses after it."""

    name: str
    #: types, and what else a type may take: strings and numbers are Python values
    arguments: tuple[Argument, ...] = ()

    def __str__(self) -> str:
        if not self.arguments:
            return self.name
        return f"{self.name}({', '.join(_argument_text(argument, self.name) for argument in self.arguments)})"

    @property
    def types(self) -> tuple[ClickHouseType, ...]:
        """The arguments that are types, named or not."""
        unnamed = (argument.type if isinstance(argument, Named) else argument for argument in self.arguments)
        return tuple(argument for argument in unnamed if isinstance(argument, ClickHouseType))

    @property
    def inner(self) -> ClickHouseType:
        """The one type that a wrapper such as ``Nullable``, ``LowCardinality`` or ``Array`` stands around."""
        (inner,) = self.types
        return inner

    @property
    def is_nullable(self) -> bool:
        """Whether values of the type may be NULL."""
        match self.name:
            case "Nullable" | "Dynamic" | "Variant":
                return True
            case "LowCardinality":
                return self.inner.is_nullable
            case _:
                return False

    @property
    def bare(self) -> ClickHouseType:
        """The type without ``Nullable`` and ``LowCardinality`` around it."""
        return self.inner.bare if self.name in _WRAPPERS else self


@dataclass(frozen=True)
class Named:
    """A type with a name: an element of a ``Tuple`` or ``Nested``, or a path of ``JSON``."""

    name: str
    type: ClickHouseType


@dataclass(frozen=True)
class EnumValue:
    """A value of an ``Enum8`` or ``Enum16``; its number is None where the server has to choose it."""

    name: str
    number: int | None


@dataclass(frozen=True)
class TypeSetting:
    """An argument that is none of the above: ``max_dynamic_paths=8`` or ``SKIP a.b``."""

    text: str


Argument = ClickHouseType | Named | EnumValue | TypeSetting | str | int | float

_WRAPPERS: Final = frozenset({"Nullable", "LowCardinality"})
_ENUMS: Final = frozenset({"Enum", "Enum8", "Enum16"})
#: far more than any table has; keeps hostile text from exhausting the stack
_MAX_DEPTH: Final = 100
_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<string>'(?:[^'\\]|\\.|'')*')
    | (?P<quoted>`(?:[^`\\]|\\.|``)*`|"(?:[^"\\]|\\.|"")*")
    | (?P<number>[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)
    | (?P<sign>[(),=])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED: Final = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)|''|``|\"\"", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "e": "\x1b"}


def parse_type(text: str) -> ClickHouseType:
    """Return the type with this name, or raise `InvalidTypeError`."""
    parsed, rest = split_type(text)
    if rest:
        raise InvalidTypeError(f"'{rest}' follows the type {parsed}")
    return parsed


def split_type(text: str) -> tuple[ClickHouseType, str]:
    """Return the type at the start of ``text`` and what follows it, such as a codec."""
    parser = _Parser(text)
    parsed = parser.type(0)
    return parsed, parser.rest()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._end = 0

    def rest(self) -> str:
        return self._text[self._end :].strip()

    def type(self, depth: int) -> ClickHouseType:
        if depth > _MAX_DEPTH:
            raise InvalidTypeError(f"the type is nested more than {_MAX_DEPTH} times")
        kind, name = self._next()
        if kind != "word":
            raise InvalidTypeError(f"expected the name of a type, found {_shown(name)}")
        if not self._skip("("):
            return ClickHouseType(name)
        arguments: list[Argument] = []
        while not self._skip(")"):
            if arguments and not self._skip(","):
                raise InvalidTypeError(f"expected ',' or ')' in {name}, found {_shown(self._peek()[1])}")
            arguments.append(self._argument(name, depth + 1))
        return ClickHouseType(name, tuple(arguments))

    def _argument(self, parent: str, depth: int) -> Argument:
        start = self._end
        kind, token = self._peek()
        if kind == "string":
            self._next()
            return self._enum_value(_unquoted(token)) if parent in _ENUMS else _unquoted(token)
        if kind == "number":
            self._next()
            return float(token) if re.search(r"[.eE]", token) else int(token)
        if kind == "quoted":
            self._next()
            return Named(_unquoted(token), self.type(depth))
        if kind == "word":
            self._next()
            following, text = self._peek()
            if following == "word" and token.upper() != "SKIP":
                return Named(token, self.type(depth))
            if text == "=" or following in ("word", "quoted"):
                return self._setting(start)
            self._end = start
        return self.type(depth)

    def _enum_value(self, name: str) -> EnumValue:
        if not self._skip("="):
            return EnumValue(name, None)
        kind, token = self._next()
        if kind != "number":
            raise InvalidTypeError(f"expected a number after '{name}' =, found {_shown(token)}")
        return EnumValue(name, int(token))

    def _setting(self, start: int) -> TypeSetting:
        while self._peek()[1] not in (",", ")", ""):
            self._next()
        return TypeSetting(self._text[start : self._end].strip())

    def _skip(self, sign: str) -> bool:
        if self._peek()[1] != sign:
            return False
        self._next()
        return True

    def _peek(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._end)
        return ("", "") if match is None or match.lastgroup is None else (match.lastgroup, match[match.lastgroup])

    def _next(self) -> tuple[str, str]:
        match = _TOKEN.match(self._text, self._end)
        if match is None or match.lastgroup is None:
            raise InvalidTypeError(
                f"expected more after '{self._text[: self._end].strip()}', found {_shown(self.rest())}"
            )
        self._end = match.end()
        return match.lastgroup, match[match.lastgroup]


def _argument_text(argument: Argument, parent: str) -> str:
    match argument:
        case Named(name, named):
            parts = name.split(".") if parent == "JSON" else [name]
            plain = all(_PLAIN.fullmatch(part) for part in parts)
            return f"{name if plain else identifier(name)} {named}"
        case EnumValue(name, number):
            return literal(name) if number is None else f"{literal(name)} = {number}"
        case TypeSetting(text):
            return text
        case str():
            return literal(argument)
        case _:
            return str(argument)


def _unquoted(token: str) -> str:
    return _ESCAPED.sub(_unescape, token[1:-1])


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape is None:
        return match[0][0]
    if len(escape) == 3:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)


def _shown(token: str) -> str:
    return f"'{token}'" if token else "the end"
