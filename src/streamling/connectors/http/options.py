"""Options of nodes that call an HTTP endpoint, and the header that ``secret_name`` refers to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, SecretStr

from streamling.connectors.http.config import HttpConfig
from streamling.errors import StreamlingError
from streamling.network.http.request import origin_of
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.config.values import secret_key
from streamling.pipeline.document.scalars import BadValueError, HttpUrl, Secret
from streamling.pipeline.options import NodeOptions

_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
#: headers that delimit the body; set for each request
_FRAMING = ("content-length", "transfer-encoding")


def _check_header_name(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise BadValueError("is not a valid header name", "use letters, digits and dashes")
    if name.lower() in _FRAMING:
        raise BadValueError("is set for each request and cannot be overridden", "remove it")
    return name


def _check_header_value(value: SecretStr) -> SecretStr:
    if any(ord(char) < 32 and char != "\t" for char in value.get_secret_value()):
        raise BadValueError("contains a line break or another control character", "remove it")
    return value


HeaderName = Annotated[str, AfterValidator(_check_header_name)]
HeaderValue = Annotated[Secret, AfterValidator(_check_header_value)]


class HttpCall(NodeOptions):
    """Mix-in for nodes that post rows to an HTTP endpoint."""

    url: HttpUrl = Field(description="Endpoint to which rows are posted.")
    headers: dict[HeaderName, HeaderValue] = Field(
        default={}, description="Headers of each request; their values are never shown."
    )
    secret_name: str | None = Field(
        default=None,
        min_length=1,
        description="Name of a header defined in the configuration, such as an API key.",
    )
    one_row_per_request: bool = Field(default=False, description="Send one object per request instead of an array.")
    payload_version: Literal[0, 1] = Field(
        default=0, description="0: plain rows; 1: rows as `data`, with the row kind as `metadata.op`."
    )


def resolve_secret(options: HttpCall, config: HttpConfig) -> tuple[str, SecretStr] | None:
    """Return the header that ``secret_name`` refers to, or None if the node has none."""
    if options.secret_name is None:
        return None
    key = secret_key(options.secret_name)
    header, value = config.http_secret_header.get(key), config.http_secret_value.get(key)
    if header is None or value is None:
        missing = [part for part, found in (("header", header), ("value", value)) if found is None]
        raise _not_configured(options.secret_name, missing)
    _check_destination(options, config)
    if header.lower() in (name.lower() for name in options.headers):
        raise StreamlingError.user(
            f"the header '{header}' is set by both 'secret_name' and 'headers'",
            remedy="keep one of the two",
        ).about("secret_name")
    with _describe_invalid(f"the header name of the secret '{options.secret_name}'"):
        _check_header_name(header)
    with _describe_invalid(f"the value of the secret '{options.secret_name}'"):
        _check_header_value(value)
    return header, value


def _check_destination(options: HttpCall, config: HttpConfig) -> None:
    if config.network.credential_hosts is None:
        return
    host = origin_of(options.url).host
    if not NetworkPolicy.of(config.network).may_receive_credentials(host):
        raise StreamlingError.user(
            f"the header of the secret '{options.secret_name}' may not be sent to '{host}'",
            remedy="add the host to network.credential_hosts in the configuration of the server, or set the header in "
            "`headers`",
        ).about("secret_name")


@contextmanager
def _describe_invalid(what: str) -> Iterator[None]:
    """Add to an error what the invalid value is."""
    try:
        yield
    except BadValueError as error:
        raise StreamlingError.user(f"{what} {error}", remedy=error.remedy).about("secret_name") from None


def _not_configured(secret: str, missing: list[str]) -> StreamlingError:
    """Return the error for a secret without ``missing``: `header`, `value`, or both."""
    settings = [f"http_secret_{part}.{secret_key(secret)}" for part in missing]
    variables = [f"STREAMLING__{setting.upper().replace('.', '__')}" for setting in settings]
    verb = "is" if len(missing) == 1 else "are"
    return StreamlingError.user(
        f"the {' and the '.join(missing)} of the secret '{secret}' {verb} not configured",
        remedy=f"set {' and '.join(settings)} (environment: {' and '.join(variables)})",
    ).about("secret_name")
