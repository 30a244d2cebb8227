"""Types of configuration values: what they accept, and how they are printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationInfo

from streamling.pipeline.document.scalars import BadValueError, check_http_url, redact_url
from streamling.redaction import MASK

_CREDENTIALS_IN_URL = re.compile(r"(://[^/@:\s]*:)[^@/\s]*@")
_QUERY_OF_URL = re.compile(r"(://[^\s?]*\?)(?=[\w.%-]+=)\S+")  # a bare ? is a wildcard in paths
_SECRET_NAME = re.compile(r"secret|password|passwd|token|credential|access[._-]?key|api[._-]?key", re.IGNORECASE)

#: instead of an address: disables export
NO_ENDPOINT = "none"


def mask_url(text: str) -> str:
    """Return ``text`` with the password and the query of every URL masked."""
    return _QUERY_OF_URL.sub(rf"\1{MASK}", _CREDENTIALS_IN_URL.sub(rf"\1{MASK}@", text))


def mask_map(values: dict[str, Any]) -> dict[str, Any]:
    """Return ``values`` with all values masked whose name suggests a secret (Spark's rule for its own settings)."""
    return {
        name: MASK if _SECRET_NAME.search(name) else mask_url(value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def folded(*allowed: str, aliases: Mapping[str, str] | None = None) -> BeforeValidator:
    spellings = {choice.casefold().replace("_", "-"): choice for choice in allowed} | dict(aliases or {})

    def fold(value: Any) -> Any:
        return spellings.get(value.strip().casefold().replace("_", "-"), value) if isinstance(value, str) else value

    return BeforeValidator(fold)


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [item for item in (part.strip() for part in value.split(",")) if item]
    return value


def parse_tags(text: str) -> dict[str, str]:
    """Parse tags such as ``environment:production,image:app:v1``: everything after the first colon is the value."""
    pairs = [part.partition(":") for part in text.split(",") if part.strip()]
    for key, colon, value in pairs:
        if not colon or not key.strip():
            raise BadValueError(
                f"contains '{key}{colon}{value}', which is not a tag", "write tags as key:value, separated by commas"
            )
    return {key.strip(): value.strip() for key, _, value in pairs}


def _check_tags(text: str) -> str:
    parse_tags(text)
    return text


def _none_or_address(text: str) -> str:
    return NO_ENDPOINT if text.strip().casefold() in ("", NO_ENDPOINT) else check_http_url(text.strip())


def _in_working_dir(path: Path, info: ValidationInfo) -> Path:
    working_dir = (info.context or {}).get("cwd")
    return working_dir / path.expanduser() if working_dir else path


LogFormat = Annotated[Literal["text", "json"], folded("text", "json")]
DrainPolicy = Annotated[Literal["auto", "drain", "fast"], folded("auto", "drain", "fast")]
OtlpProtocol = Annotated[
    Literal["http/protobuf", "http/json", "grpc"],
    folded(
        "http/protobuf",
        "http/json",
        "grpc",
        aliases={"": "http/protobuf", "httpbinary": "http/protobuf", "httpjson": "http/json"},
    ),
]

#: `none` or an http(s) address; tokens in it are never shown
OtlpEndpoint = Annotated[str, AfterValidator(_none_or_address), PlainSerializer(redact_url, when_used="json")]
Tags = Annotated[str, AfterValidator(_check_tags)]
Url = Annotated[str, PlainSerializer(mask_url, when_used="json")]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
#: relative paths are resolved against the working directory passed to `load_config`
LocalPath = Annotated[Path, AfterValidator(_in_working_dir)]
PlainMap = Annotated[dict[str, str], PlainSerializer(mask_map, when_used="json")]
AnyMap = Annotated[dict[str, Any], PlainSerializer(mask_map, when_used="json")]


def secret_key(secret_name: str) -> str:
    """Return the name of a secret in the configuration.

    >>> secret_key("My API-key")
    'my_api_key'
    """
    return re.sub(r"[^a-z0-9]", "_", secret_name.lower())
