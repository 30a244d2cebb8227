"""The configuration of handlers and webhooks."""

from __future__ import annotations

from pydantic import Field, SecretStr

from streamling.config.core import CoreConfig
from streamling.config.section import Section


class HttpHandler(Section):
    """Handlers and webhooks."""

    trigger_max_count: int = Field(default=2000, ge=1, description="Rows per request at most.")
    operator_timeout_sec: float = Field(default=300, gt=0, description="Longest wait for one answer.")
    buffer_size: int = Field(default=25, ge=1, description="Requests under way at once, per instance of a node.")
    max_request_bytes: int = Field(
        default=64 * 1024 * 1024, ge=1, description="Longest request; a batch is cut accordingly."
    )
    max_response_bytes: int = Field(default=64 * 1024 * 1024, ge=1, description="Longest answer, also when unpacked.")
    max_response_values: int = Field(
        default=5_000_000, ge=1, description="JSON values (objects, arrays, fields) in an answer to a handler at most."
    )


class Network(Section):
    """What handlers and webhooks may reach."""

    deny_private: bool = Field(
        default=False, description="Refuse private, loopback, link-local and metadata addresses."
    )


class HttpConfig(CoreConfig):
    """What handlers and webhooks add to the configuration."""

    external_http_handler: HttpHandler = Field(default=HttpHandler())
    http_secret_header: dict[str, str] = Field(
        default={},
        json_schema_extra={"keys_are_secret_names": True},
        description="Header name by `secret_name`.",
    )
    http_secret_value: dict[str, SecretStr] = Field(default={}, description="Header value by `secret_name`.")
    network: Network = Field(default=Network())
