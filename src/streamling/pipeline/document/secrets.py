"""Finds secrets in user input: typed fields, names that suggest a secret, credentials inside text."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

from pydantic import BaseModel, SecretStr

from streamling.redaction import has_secret_name

#: scheme, user information, and the rest of an address; the last @ ends the user information
_URL = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*)://(?:([^\s'\"]*)@)?([^\s'\"]*)")
#: settings of libpq in one string
_DSN = re.compile(r"\b(?:host|hostaddr|dbname|user|port)\s?=", re.IGNORECASE)
_DSN_PASSWORD = re.compile(
    r"\b(?:password|passwd|pwd|sslpassword)\s?=\s?(?:'((?:[^'\\]|\\.)*)'|([^\s,;&]+))", re.IGNORECASE
)
#: the working directory, and what tokens of `streamling serve` may do
_NO_SECRETS = re.compile(r"(?:OLD)?PWD|STREAMLING__SERVE__TOKENS__.+__(?:ROLE|NAMESPACES)", re.IGNORECASE)
#: Maps whose keys are names of columns or secrets: a column `token` of type `string` does not make `string` a secret.
_MAPS_BY_NAME = frozenset({"http_secret_header", "schema", "schema_", "aggregate", "labels", "telemetry"})
#: a query value that looks random, whatever its name
_RANDOM = re.compile(r"(?=.*\d)(?=.*[A-Za-z])\S{12,}")


def secrets_in(value: Any, name: str = "") -> Iterator[str]:
    """Yield all secrets in a model, a mapping, a list or a text; ``name`` is the user's name for it."""
    if name in _MAPS_BY_NAME:
        return
    match value:
        case SecretStr():
            yield from secrets_of_text(value.get_secret_value(), is_secret=True)
        case BaseModel():
            for field, part in _fields(value):
                yield from secrets_in(part, field)
        case Mapping():
            for key, part in value.items():
                # `headers` may contain a cookie, or a key under any name
                yield from secrets_in(part, f"secret.{key}" if name == "headers" else str(key))
        case list() | tuple() | set() | frozenset():
            for part in value:
                yield from secrets_in(part, name)
        case str():
            yield from secrets_of_text(value, is_secret=has_secret_name(name) and not name.endswith("_name"))
        case bool() | None:
            return
        case int() | float() if has_secret_name(name):
            yield str(value)


def secrets_in_environment(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield values of variables whose names suggest a secret, and credentials in the others."""
    for name, value in environ.items():
        yield from secrets_of_text(value, is_secret=has_secret_name(name) and not _NO_SECRETS.fullmatch(name))


def secrets_of_text(text: str, *, is_secret: bool) -> Iterator[str]:
    """Yield ``text`` itself if it is a secret, and the credentials in it."""
    if is_secret:
        yield text
        yield from _secrets_in_basic_auth(text)
    for scheme, user, rest in _URL.findall(text):
        yield from _secrets_in_user_info(scheme.lower(), user)
        yield from _secrets_in_query(rest)
    for quoted, plain in _DSN_PASSWORD.findall(text) if _DSN.search(text) else ():
        yield quoted or plain


def _fields(model: BaseModel) -> Iterator[tuple[str, Any]]:
    yield from vars(model).items()  # not by attribute: reading a deprecated one warns
    yield from (model.model_extra or {}).items()


def _secrets_in_user_info(scheme: str, user: str) -> Iterator[str]:
    _, colon, password = user.partition(":")
    if colon:
        yield password
        yield unquote(password)
    elif user and scheme in ("http", "https"):  # a token alone
        yield user
        yield unquote(user)


def _secrets_in_query(rest: str) -> Iterator[str]:
    for parameter in re.split("[&;#]", rest.partition("?")[2]):
        name, _, value = parameter.partition("=")
        if has_secret_name(name) or _RANDOM.fullmatch(value):
            yield value
            yield unquote_plus(value)


def _secrets_in_basic_auth(text: str) -> Iterator[str]:
    """Yield the password in the value of an `Authorization` header."""
    scheme, _, encoded = text.strip().partition(" ")
    if scheme.lower() != "basic":
        return
    try:
        _, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return
    if colon:
        yield password
