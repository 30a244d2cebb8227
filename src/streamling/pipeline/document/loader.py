"""Reads untrusted YAML: plain data, the location of every value, and strict limits.

Values follow the YAML 1.2 core schema: only ``true`` and ``false`` are booleans (``no`` and ``on`` are text), dates are
text, integers beyond 64 bits (wide numbers, long 0x addresses) are text. Tags, and with them objects, are rejected.
Aliases are resolved within the limits; ``<<`` merges mappings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.syntax import syntax_problem

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 64
#: number of values after resolving aliases; a real pipeline has a few thousand
MAX_VALUES = 100_000

Path = tuple[str | int, ...]
#: a parser event; PyYAML's stubs declare the marks optional, but these events always have them
Event = Any


@dataclass(frozen=True)
class EntryLocation:
    """Location of an entry."""

    #: the key of a mapping entry, or the item of a list
    key: Location
    #: first character of the value; for a block text, of its first line
    value: Location
    #: a plain scalar as written
    text: str | None = None


@dataclass(frozen=True)
class Document:
    """Plain data and the location of each part."""

    data: Any
    file: str
    entry_locations: Mapping[Path, EntryLocation]
    problems: tuple[Problem, ...] = ()

    @property
    def name(self) -> str:
        """The name that a pipeline file declares; empty if it declares none."""
        name = self.data.get("name") if isinstance(self.data, dict) else None
        return name.strip() if isinstance(name, str) else ""

    def entry_location(self, path: Path) -> EntryLocation:
        """Return the location of ``path``, or of its nearest parent."""
        while path and path not in self.entry_locations:
            path = path[:-1]
        return self.entry_locations.get(path, EntryLocation(Location(self.file), Location(self.file)))


def load_yaml(text: str | bytes, file: str) -> Document:
    """Return the single document in ``text``. Raises `InvalidPipeline` if it cannot be read at all; errors that leave
    the rest readable, such as a duplicate key, are in ``problems`` of the result."""
    decoded = _decode(text, file)
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Reader(yaml.parse(decoded, Loader=loader), decoded, file).document()
    except yaml.YAMLError as error:
        raise InvalidPipeline([syntax_problem(error, decoded, file)]) from None


def _decode(text: str | bytes, file: str) -> str:
    if len(text) > MAX_BYTES:
        raise InvalidPipeline([Problem(f"the file is larger than {MAX_BYTES // 2**20} MiB", file)])
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = text[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        message = f"the file is not UTF-8 text: byte 0x{text[error.start]:02x} is invalid"
        raise InvalidPipeline([Problem(message, file, line, column, "save it as UTF-8")]) from None


@dataclass(frozen=True)
class _ParsedValue:
    """A value with the number of values in it and their nesting depth, after resolving aliases."""

    data: Any
    size: int = 1
    depth: int = 0


@dataclass
class _Reader:
    """Builds data from parser events; recursion is limited by `MAX_DEPTH`, unlike in PyYAML's own composer."""

    events: Iterator[Event]
    text: str
    file: str
    entry_locations: dict[Path, EntryLocation] = field(default_factory=dict)
    anchors: dict[str, _ParsedValue] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    values: int = 0

    def document(self) -> Document:
        next(self.events)  # stream start
        if isinstance(next(self.events), yaml.StreamEndEvent):
            return Document(None, self.file, {}, ())
        data = self._value(next(self.events), ()).data
        next(self.events)  # document end
        after = next(self.events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._fatal(after, "a second document begins here", "keep one pipeline per file: remove the '---'")
        return Document(data, self.file, self.entry_locations, tuple(self.problems))

    # ── values ────────────────────────────────────────────────────────────────────────────────────────────

    def _value(self, event: Event, path: Path) -> _ParsedValue:
        if len(path) > MAX_DEPTH:
            self._fatal(event, f"the file is nested deeper than {MAX_DEPTH} levels")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, path)
        self._count(event, 1)
        if event.tag is not None and event.tag != "!":
            self._problem(event, f"the tag {event.tag!r} is not allowed", "write plain YAML without tags")
        if isinstance(event, yaml.ScalarEvent):
            built = _ParsedValue(_scalar(event))
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self._sequence(path)
        else:
            built = self._mapping(event, path)
        if event.anchor is not None:
            self.anchors[event.anchor] = built
        return built

    def _alias(self, event: Event, path: Path) -> _ParsedValue:
        built = self.anchors.get(event.anchor)
        if built is None:
            self._fatal(
                event,
                f"the alias '*{event.anchor}' has no anchor before it",
                f"define '&{event.anchor}' earlier, or quote the text",
            )
        if len(path) + built.depth > MAX_DEPTH:
            self._fatal(event, f"the file is nested deeper than {MAX_DEPTH} levels after resolving aliases")
        self._count(event, built.size)
        return built

    def _sequence(self, path: Path) -> _ParsedValue:
        items: list[Any] = []
        size, depth = 1, 0
        while not isinstance(event := next(self.events), yaml.SequenceEndEvent):
            here = (*path, len(items))
            self.entry_locations[here] = self._entry_location(event, event)
            built = self._value(event, here)
            items.append(built.data)
            size, depth = size + built.size, max(depth, built.depth + 1)
        return _ParsedValue(items, size, depth)

    def _mapping(self, start: Event, path: Path) -> _ParsedValue:
        entries: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        size, depth = 1, 0
        last: tuple[str, Event] | None = None
        while not isinstance(key_event := next(self.events), yaml.MappingEndEvent):
            key = self._key(key_event)
            value_event = next(self.events)
            if start.flow_style and last is not None and _is_cut(last[1], key_event, value_event):
                entries[last[0]] = self._uncut(last[1], key_event)
                continue
            last = key, value_event
            here = (*path, key)
            repeated = key in entries
            if repeated:
                first = self.entry_locations[here].key.line
                self._problem(key_event, f"the key '{key}' is also in line {first}", "remove one of them")
            else:
                self.entry_locations[here] = self._entry_location(key_event, value_event)
            built = self._value(value_event, here)
            size, depth = size + built.size, max(depth, built.depth + 1)
            if _is_merge(key_event):
                merged |= self._merge(key_event, built.data, merged, path)
            elif not repeated:
                entries[key] = built.data
        return _ParsedValue({**merged, **entries}, size + len(merged), depth)

    def _uncut(self, begin: Event, end: Event) -> str:
        """Return the text that a comma has cut in two, such as ``decimal(10,2)``."""
        text = self.text[begin.start_mark.index : end.end_mark.index]
        message = (
            f"the value {text} is not in quotes, so it ends at its comma: commas separate the entries inside {{…}}"
        )
        self._problem(begin, message, f"write '{text}', in quotes")
        return text

    def _merge(self, event: Event, data: Any, merged: dict[str, Any], path: Path) -> dict[str, Any]:
        sources = data if isinstance(data, list) else [data]
        new: dict[str, Any] = {}
        for source in sources:
            if not isinstance(source, dict):
                self._problem(event, "'<<' merges mappings only", "use an alias of a mapping")
                return {}
            new |= {key: value for key, value in source.items() if key not in merged and key not in new}
        self._count(event, len(new))
        for key in new:
            self.entry_locations.setdefault((*path, key), self._entry_location(event, event))
        return new

    def _key(self, event: Event) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._fatal(event, "a key must be plain text", "a value with braces, brackets or '*' needs quotes")
        self._count(event, 1)
        return str(event.value)

    # ── locations and limits ─────────────────────────────────────────────────────────────────────────────────

    def _entry_location(self, key: Event, value: Event) -> EntryLocation:
        text = value.value if isinstance(value, yaml.ScalarEvent) and not value.style else None
        return EntryLocation(self._location(key), self._value_location(value), text)

    def _location(self, event: Event) -> Location:
        return Location(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _value_location(self, event: Event) -> Location:
        location = self._location(event)
        if not isinstance(event, yaml.ScalarEvent):
            return location
        if event.style in ("'", '"'):
            return Location(self.file, location.line, location.column + 1)
        if event.style in ("|", ">"):
            return Location(self.file, location.line + 1, self._indentation(event))
        return location

    def _indentation(self, block: Event) -> int:
        """Return the indentation of the lines of a block text."""
        lines = self.text[block.start_mark.index : block.end_mark.index].split("\n")[1:]
        return next((len(line) - len(line.lstrip(" ")) + 1 for line in lines if line.strip()), 1)

    def _count(self, event: Event, values: int) -> None:
        self.values += values
        if self.values > MAX_VALUES:
            self._fatal(event, f"the file has more than {MAX_VALUES} values after resolving aliases")

    def _problem(self, event: Event, message: str, remedy: str | None = None) -> None:
        location = self._location(event)
        self.problems.append(Problem(message, location.file, location.line, location.column, remedy))

    def _fatal(self, event: Event, message: str, remedy: str | None = None) -> NoReturn:
        self._problem(event, message, remedy)
        raise InvalidPipeline(self.problems)


# ── scalars of the core schema ────────────────────────────────────────────────────────────────────────────

_CONSTANTS: Mapping[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]{1,30}|0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30}", re.ASCII)
#: too long for the rule above; a float would lose digits
_LONG_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_SPECIAL_FLOAT = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def _scalar(event: Event) -> Any:
    text: str = event.value
    return text if event.style or event.tag is not None else plain_scalar(text)


def plain_scalar(text: str) -> Any:
    """Return the value of ``text`` without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        number = int(text, 0) if text[:2] in ("0o", "0x") else int(text)
        return number if -(2**63) <= number < 2**64 else text
    if _LONG_INTEGER.fullmatch(text):
        return text
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _SPECIAL_FLOAT.fullmatch(text) else text


def _is_cut(begin: Event, key: Event, value: Event) -> bool:
    """Return whether ``key`` has no value and closes the parenthesis that ``begin`` opens; all are without quotes."""
    if not all(isinstance(event, yaml.ScalarEvent) and not event.style for event in (begin, key, value)):
        return False
    opened = begin.value.count("(") - begin.value.count(")")
    return not value.value and opened == key.value.count(")") - key.value.count("(") > 0


def _is_merge(event: Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.value == "<<" and not event.style
