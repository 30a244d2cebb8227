"""Variables in the values of a pipeline file.

=======================  ======================================================================
 ``${NAME}``              the environment variable ``NAME``; an error when it is not set
 ``${NAME:-default}``     the same, or ``default`` when it is not set or empty
 ``${secret:NAME}``       the setting ``secrets.<name>``, or else an entry of the secret store; masked in all output
 ``$${``                  the characters ``${``
=======================  ======================================================================

Fields that hold a program (`ProgramText`: SQL, filters, scripts) keep their ``${…}`` as written, because JavaScript
templates use the same spelling. Keys and the `type` of a node are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, SecretStr

from streamling.errors import Problem, StreamlingError
from streamling.pipeline.config.values import secret_key
from streamling.pipeline.document.loader import Document, Path, plain_scalar
from streamling.pipeline.document.scalars import PROGRAM
from streamling.pipeline.document.suggest import did_you_mean
from streamling.pipeline.model import NodeKind
from streamling.pipeline.node_types import NodeTypes
from streamling.pipeline.validation_errors import problem_at

_REFERENCE = re.compile(r"\$(\$\{)|\$\{([^}]*)(\}?)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SECRET = re.compile(r"secret:(.*)")
_LITERAL = "write $${ for the characters ${"


@dataclass(frozen=True)
class Variables:
    """The values of variables."""

    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, SecretStr] = field(default_factory=dict)


class _Undefined(Exception):
    """A reference that has no value, with a remedy."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


def expand_variables(document: Document, registry: NodeTypes, variables: Variables) -> Document:
    """Return ``document`` with the variables in its name and in the fields of its nodes replaced; its problems list
    those without a value."""
    document = expand_name(document, variables)
    if not isinstance(document.data, dict):
        return document
    expansion = _Expansion(document, variables)
    data = dict(document.data)
    for kind in NodeKind:
        nodes = data.get(kind.section)
        if isinstance(nodes, dict):
            data[kind.section] = {
                name: expansion.node(fields, kind, (kind.section, name), registry) for name, fields in nodes.items()
            }
    return replace(document, data=data, problems=(*document.problems, *expansion.problems))


def expand_name(document: Document, variables: Variables) -> Document:
    """Return ``document`` with the variables in its name replaced, which needs no node types."""
    if not document.name:
        return document
    expansion = _Expansion(document, variables)
    data = {**document.data, "name": expansion.value(document.name, str, ("name",))}
    return replace(document, data=data, problems=(*document.problems, *expansion.problems))


class _Expansion:
    def __init__(self, document: Document, variables: Variables) -> None:
        self._document = document
        self._variables = variables
        self.problems: list[Problem] = []

    def node(self, fields: Any, kind: NodeKind, path: Path, registry: NodeTypes) -> Any:
        if not isinstance(fields, dict):
            return fields
        # the environment must not decide which plugins are imported: a type cannot be a variable
        found = registry.get(kind, fields["type"]) if isinstance(fields.get("type"), str) else None
        return fields if found is None else self.value(fields, found.options, path)

    def value(self, value: Any, expected: Any, path: Path) -> Any:
        """Return ``value`` of a field with the type ``expected``, an annotation of pydantic."""
        if isinstance(value, dict):
            return {key: self.value(each, _member(expected, key), (*path, key)) for key, each in value.items()}
        if isinstance(value, list):
            return [self.value(each, _member(expected, None), (*path, n)) for n, each in enumerate(value)]
        if not isinstance(value, str) or "${" not in value or _is_program(expected):
            return value
        try:
            text = _REFERENCE.sub(self._replacement, value)
        except _Undefined as undefined:
            location = self._document.entry_location(path).value
            self.problems.append(problem_at(str(undefined), location, undefined.remedy))
            return value
        # an unquoted ${PORT} is a number like an unquoted 5432, except where text is expected
        is_plain = self._document.entry_location(path).text is not None
        return plain_scalar(text) if is_plain and not _takes_text(expected) else text

    def _replacement(self, reference: re.Match[str]) -> str:
        escaped, body, end = reference.groups()
        if escaped:
            return str(escaped)
        if not end:
            raise _Undefined(f"'${{{body}' has no closing brace", f"close it, or {_LITERAL}")
        if secret := _SECRET.fullmatch(body):
            return self._secret(secret[1])
        name, has_default, default = body.partition(":-")
        if not _NAME.fullmatch(name):
            raise _Undefined(f"'${{{body}}}' is not the name of a variable", _LITERAL)
        found = self._variables.env.get(name)
        if found is None and not has_default:
            raise _Undefined(
                f"the environment variable '{name}' is not set", f"set it, or write ${{{name}:-default}}; {_LITERAL}"
            )
        return default if has_default and not found else found or ""

    def _secret(self, name: str) -> str:
        try:
            found = self._variables.secrets.get(secret_key(name))
        except StreamlingError as error:
            raise _Undefined(f"the secret '{name}' cannot be read: {error}", error.remedy or "") from error
        if found is None:
            known = did_you_mean(secret_key(name), list(self._variables.secrets), "")
            set_it = (
                f"set secrets.{secret_key(name)} or STREAMLING__SECRETS__{secret_key(name).upper()}, "
                f"or store it: streamling secret set {secret_key(name)}"
            )
            raise _Undefined(f"the secret '{name}' is not configured", f"{known}; {set_it}" if known else set_it)
        return found.get_secret_value()


# ── types of fields ──────────────────────────────────────────────────────────────────────────────────────────


def _member(expected: Any, key: str | None) -> Any:
    """Return the type of the entry ``key`` of a mapping or model, or of an item of a list; None if it is not known."""
    found = [member for each in _alternatives(expected) for member in _members(each, key)]
    return Union[tuple(found)] if found else None  # noqa: UP007


def _members(expected: Any, key: str | None) -> Iterator[Any]:
    if isinstance(expected, type) and issubclass(expected, BaseModel):
        for name, info in expected.model_fields.items():
            if key in (info.alias, name):
                # pydantic takes the metadata of the outermost Annotated off the annotation
                yield Annotated[info.annotation, *info.metadata] if info.metadata else info.annotation
    elif get_origin(expected) is not Literal and (arguments := get_args(expected)):
        yield arguments[-1] if key is not None or arguments[-1] is not Ellipsis else arguments[0]


def _alternatives(expected: Any) -> Iterator[Any]:
    """Yield the types of a union, without annotations."""
    if get_origin(expected) is Annotated:
        yield from _alternatives(get_args(expected)[0])
    elif get_origin(expected) in (Union, UnionType):
        for each in get_args(expected):
            yield from _alternatives(each)
    elif expected is not NoneType:
        yield expected


def _is_program(expected: Any) -> bool:
    return _any_part(expected, lambda part: get_origin(part) is Annotated and PROGRAM in get_args(part)[1:])


def _takes_text(expected: Any) -> bool:
    return any(each in (str, SecretStr) or get_origin(each) in (Literal, tuple) for each in _alternatives(expected))


def _any_part(expected: Any, holds: Callable[[Any], bool]) -> bool:
    if holds(expected):
        return True
    if get_origin(expected) in (Union, UnionType, Annotated):
        return any(_any_part(part, holds) for part in get_args(expected))
    return False
