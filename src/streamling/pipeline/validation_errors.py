"""Translates pydantic's errors into problems, each with its place in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from streamling.errors import Problem
from streamling.pipeline.document.loader import Document, EntryLocation, Path
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.scalars import BadValueError
from streamling.pipeline.document.suggest import closest, listing


@dataclass(frozen=True)
class Subject:
    """A part of the file that is parsed into a model."""

    document: Document
    path: Path
    raw: Mapping[str, Any]
    model: type[BaseModel]
    #: its name in messages, e.g. ``kafka source 'blocks'``
    name: str

    def entry_location(self, path: Path) -> EntryLocation:
        """Return where a field is; a plugin's option may be below ``options``."""
        nested = (*self.path, "options", *path)
        return self.document.entry_location(nested if nested in self.document.entry_locations else (*self.path, *path))


@dataclass(frozen=True)
class _Finding:
    path: Path
    kind: str
    input: Any
    context: Mapping[str, Any]
    said: str
    #: whether the error is in the name of the entry, not in its value
    in_key: bool


def problems_of(error: ValidationError, subject: Subject) -> list[Problem]:
    """Return one problem per error; a misspelt required field is reported once."""
    findings = [_finding(details, subject.raw) for details in error.errors(include_url=False)]
    unknown = {found.path: _fields(subject, found.path[:-1]) for found in findings if _is_unknown(found)}
    meant = {(*path[:-1], closest(str(path[-1]), fields)) for path, fields in unknown.items()}
    return [
        _unknown_field(found, subject, unknown[found.path]) if _is_unknown(found) else _problem(found, subject)
        for found in findings
        if not (found.kind == "missing" and found.path in meant)
    ]


def value_kind(value: Any) -> str:
    """Return the kind of value in the file, without showing what may be secret."""
    match value:
        case None:
            return "empty"
        case bool():
            return str(value).lower()
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case dict():
            return "a mapping"
        case _:
            return type(value).__name__


def _is_unknown(found: _Finding) -> bool:
    return found.kind == "extra_forbidden"


def _finding(details: Any, raw: Any) -> _Finding:
    """Return pydantic's location without the names of union members and keys that it adds."""
    path: list[str | int] = []
    current = raw
    for part in details["loc"]:
        if (isinstance(current, dict) and part in current) or (
            isinstance(current, list) and isinstance(part, int) and part < len(current)
        ):
            current = current[part]
            path.append(part)
        elif part == details["loc"][-1] and details["type"] == "missing":
            path.append(part)
    context = details.get("ctx", {})
    error = context.get("error")
    if isinstance(error, BadValueError) and error.field is not None:
        path.append(error.field)
    if "discriminator" in context:
        path.append(context["discriminator"].strip("'"))
    in_key = details["loc"][-1:] == ("[key]",)
    return _Finding(tuple(path), details["type"], details["input"], context, details["msg"], in_key)


# ── unknown and missing fields ───────────────────────────────────────────────────────────────────────────


def _unknown_field(found: _Finding, subject: Subject, fields: Mapping[str, FieldInfo]) -> Problem:
    match = closest(str(found.path[-1]), fields)
    remedy = f"did you mean '{match}'?" if match else f"known fields: {listing(sorted(fields))}"
    return problem_at(
        f"{subject.name}: unknown field '{dotted(found.path)}'",
        subject.entry_location(found.path).key,
        remedy,
    )


def _fields(subject: Subject, path: Path) -> dict[str, FieldInfo]:
    """Return the fields that are allowed at ``path``, by their names in the file."""
    return {name: info for each in _models_at(subject, path) for name, info in _named(each).items()}


def _models_at(subject: Subject, path: Path) -> list[type[BaseModel]]:
    """Return the models of the mapping at ``path``: several if it does not say which variant it is."""
    models, raw = [subject.model], subject.raw
    for part in path:
        raw = _entry(raw, part)
        if isinstance(part, int):
            continue
        inside = [named[part] for each in models if part in (named := _named(each))]
        models = [found for info in inside for found in _models_in(info.annotation)] or models
        models = [each for each in models if _may_be(each, raw)] or models
    return models


def _entry(raw: Any, part: str | int) -> Any:
    if isinstance(raw, dict):
        return raw.get(part)
    return raw[part] if isinstance(raw, list) and isinstance(part, int) and part < len(raw) else None


def _may_be(model: type[BaseModel], raw: Any) -> bool:
    """Return whether ``raw``, or text that stands for it, has the names that distinguish the variant ``model``."""
    for name, info in _named(model).items():
        value = raw.get(name) if isinstance(raw, dict) else raw
        if isinstance(value, str) and (allowed := _literals(info)) and value not in allowed:
            return False
    return True


def _literals(info: FieldInfo) -> tuple[Any, ...]:
    """Return the only values that a field may have; empty if there are others."""
    return get_args(info.annotation) if get_origin(info.annotation) is Literal else ()


def _named(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field_name(name, info): info for name, info in model.model_fields.items()}


def field_name(name: str, info: FieldInfo) -> str:
    """Return the name of a model's field as the file spells it."""
    return info.alias or name


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


# ── wrong values ─────────────────────────────────────────────────────────────────────────────────────────


def _problem(found: _Finding, subject: Subject) -> Problem:
    entry_location = subject.entry_location(found.path)
    if found.kind in ("missing", "union_tag_not_found"):
        remedy = _missing_remedy(_models_at(subject, found.path[:-1]), str(found.path[-1]))
        return problem_at(f"{subject.name}: the field '{dotted(found.path)}' is missing", entry_location.key, remedy)
    predicate, remedy_or_none = _predicate(found)
    remedy_or_none = _mapping_form(found, subject) or remedy_or_none
    field = f"'{dotted(found.path)}' " if found.path else ""
    location = entry_location.key if found.in_key else entry_location.value
    return problem_at(f"{subject.name}: {field}{predicate}", location, remedy_or_none)


def _missing_remedy(models: list[type[BaseModel]], field: str) -> str:
    infos = [named[field] for model in models if field in (named := _named(model))]
    if literals := [value for info in infos for value in _literals(info)]:
        return f"add it, one of: {listing(literals)}"
    return next((f"add it: {info.description}" for info in infos if info.description), "add it")


def _predicate(found: _Finding) -> tuple[str, str | None]:
    error = found.context.get("error")
    if isinstance(error, BadValueError):
        return str(error), error.remedy
    if found.kind in _EXPECTED:
        expected, remedy = _EXPECTED[found.kind]
        if found.input is None:
            return f"is empty where {expected} is expected", None
        value = _shown(found) if expected in _NEVER_SECRET else value_kind(found.input)
        return f"is {value} where {expected} is expected", remedy
    if found.kind in _RULES:
        return _RULES[found.kind](found), None
    return f"cannot be used: {error or found.said}", None


def _mapping_form(found: _Finding, subject: Subject) -> str | None:
    """Return how to write a field that is a mapping, for a short form that others use: ``mode: continuous`` or
    ``group_by: [account]``."""
    if found.kind not in _MAPPING or not found.path:
        return None
    info = _fields(subject, found.path[:-1]).get(str(found.path[-1]))
    models = [] if info is None else list(_models_in(info.annotation))
    if any(
        found.input in get_args(model.model_fields["type"].annotation) for model in models if "type" in _named(model)
    ):
        return f"write {dotted(found.path)}: {{type: {found.input}}}"
    names = found.input if isinstance(found.input, list) else [found.input]
    if len(models) != 1 or not all(isinstance(name, str) for name in names):
        return None
    needed = ", ".join(f"{name}: …" for name, field in _named(models[0]).items() if field.is_required())
    return f"write {dotted(found.path)}: {{{', '.join(f'{name}: {{{needed}}}' for name in names)}}}"


_QUOTE = "put the value in quotes if it is meant as text"
_WHOLE = "a whole number"
_MAPPING = ("dict_type", "mapping_type", "model_type", "model_attributes_type")
#: a field that expects one of these is not secret, so its value may be shown
_NEVER_SECRET = frozenset({_WHOLE, "a number", "true or false"})
#: pydantic's error → what was expected, what to do
_EXPECTED: Mapping[str, tuple[str, str | None]] = {
    "string_type": ("text", _QUOTE),
    "int_type": (_WHOLE, "write it without quotes, such as 4"),
    "int_parsing": (_WHOLE, None),
    "int_from_float": (_WHOLE, None),
    "float_type": ("a number", None),
    "float_parsing": ("a number", None),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "bool_parsing": ("true or false", None),
    **dict.fromkeys(_MAPPING, ("a mapping", "write one 'key: value' per line, indented below it")),
    "list_type": ("a list", "write one '- ' per line, indented below it"),
    "tuple_type": ("a list", "write one '- ' per line, indented below it"),
}


def _one_of(found: _Finding) -> str:
    expected = str(found.context.get("expected") or found.context.get("expected_tags"))
    return f"is {_shown(found)}; allowed: {expected.replace(' or ', ', ')}"


def _shown(found: _Finding) -> str:
    value = found.context.get("tag", found.input)
    if isinstance(value, str):
        return f"'{value}'"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value_kind(value)


#: pydantic's error → predicate; fields with bounds or choices are never secret, so the value may be shown
_RULES: Mapping[str, Callable[[_Finding], str]] = {
    "literal_error": _one_of,
    "enum": _one_of,
    "union_tag_invalid": _one_of,
    "string_pattern_mismatch": lambda found: f"is {_shown(found)}, which does not have the expected form",
    "greater_than_equal": lambda found: f"is {found.input}; it must be at least {found.context['ge']}",
    "greater_than": lambda found: f"is {found.input}; it must be more than {found.context['gt']}",
    "less_than_equal": lambda found: f"is {found.input}; it must be at most {found.context['le']}",
    "less_than": lambda found: f"is {found.input}; it must be less than {found.context['lt']}",
    "string_too_short": lambda found: "is empty",
    "too_short": lambda found: f"has {len(found.input)} entries; it needs {found.context['min_length']}",
    "too_long": lambda found: f"has {len(found.input)} entries; at most {found.context['max_length']} are allowed",
}


# ── shared ───────────────────────────────────────────────────────────────────────────────────────────────


def dotted(path: Path) -> str:
    """Return ``('a', 'b', 0)`` as ``a.b[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def problem_at(message: str, location: Location, remedy: str | None = None) -> Problem:
    """Return a problem at ``location``."""
    return Problem(message, location.file, location.line, location.column, remedy)
