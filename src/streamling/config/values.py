"""Types of single configuration values: what they accept, and how they look when printed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, ValidationInfo

_CREDENTIALS_IN_URL = re.compile(r"(://[^/@:\s]*:)[^@/\s]*@")
_SECRET_NAME = re.compile(r"secret|password|passwd|token|credential|access[._-]?key|api[._-]?key", re.IGNORECASE)

MASK = "**********"


def mask_url(text: str) -> str:
    """``text`` with the password of every URL in it covered."""
    return _CREDENTIALS_IN_URL.sub(rf"\1{MASK}@", text)


def mask_map(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` with everything covered whose name suggests a secret (the rule Spark applies to its own)."""
    return {
        name: MASK if _SECRET_NAME.search(name) else mask_url(value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _folded(*allowed: str) -> BeforeValidator:
    spellings = {choice.casefold().replace("_", "-"): choice for choice in allowed}

    def fold(value: Any) -> Any:
        return spellings.get(value.strip().casefold().replace("_", "-"), value) if isinstance(value, str) else value

    return BeforeValidator(fold)


def _split(value: Any) -> Any:
    if isinstance(value, str):
        return [item for item in (part.strip() for part in value.split(",")) if item]
    return value


def _in_working_dir(path: Path, info: ValidationInfo) -> Path:
    working_dir = (info.context or {}).get("cwd")
    return working_dir / path.expanduser() if working_dir else path


BackendType = Annotated[Literal["InMemory", "Postgres", "Sqlite"], _folded("InMemory", "Postgres", "Sqlite")]
LogFormat = Annotated[Literal["text", "json"], _folded("text", "json")]
DrainPolicy = Annotated[Literal["auto", "drain", "fast"], _folded("auto", "drain", "fast")]
Compression = Annotated[Literal["none", "gzip", "zstd", "lz4"], _folded("none", "gzip", "zstd", "lz4")]
SslMode = Annotated[
    Literal["disable", "allow", "prefer", "require", "verify-ca", "verify-full"],
    _folded("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
]
SecurityProtocol = Annotated[
    Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"],
    _folded("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
]
SaslMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"],
    _folded("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
]

Url = Annotated[str, PlainSerializer(mask_url, when_used="json")]
Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
#: relative paths are meant from the working directory given to `load_config`
LocalPath = Annotated[Path, AfterValidator(_in_working_dir)]
PlainMap = Annotated[dict[str, str], PlainSerializer(mask_map, when_used="json")]
AnyMap = Annotated[dict[str, Any], PlainSerializer(mask_map, when_used="json")]
