"""The configuration of handlers and webhooks."""

from __future__ import annotations

from pydantic import Field, SecretStr

from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import AT_MOST
from streamling.pipeline.config.section import Section


class HttpHandlerSettings(Section):
    """Settings of handlers and webhooks."""

    trigger_max_count: int = Field(
        default=2000, ge=1, json_schema_extra=AT_MOST, description="Maximum number of rows per request."
    )
    operator_timeout_sec: float = Field(
        default=300, gt=0, json_schema_extra=AT_MOST, description="Time limit for one response."
    )
    buffer_size: int = Field(
        default=25, ge=1, json_schema_extra=AT_MOST, description="Requests in flight at once, per instance of a node."
    )
    max_request_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        json_schema_extra=AT_MOST,
        description="Maximum size of a request; larger batches are split.",
    )
    max_response_bytes: int = Field(
        default=64 * 1024 * 1024,
        ge=1,
        json_schema_extra=AT_MOST,
        description="Maximum size of a response, also after decompression.",
    )
    max_response_values: int = Field(
        default=5_000_000,
        ge=1,
        json_schema_extra=AT_MOST,
        description="Maximum number of JSON values (objects, arrays, fields) in a response to a handler.",
    )


class HttpConfig(CoreConfig):
    """Settings that handlers and webhooks add to the configuration."""

    external_http_handler: HttpHandlerSettings = Field(default=HttpHandlerSettings())
    http_secret_header: dict[str, str] = Field(
        default={},
        json_schema_extra={"keys_are_secret_names": True},
        description="Header name by `secret_name`.",
    )
    http_secret_value: dict[str, SecretStr] = Field(default={}, description="Header value by `secret_name`.")
