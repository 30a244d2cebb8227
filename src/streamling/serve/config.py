"""The settings of `streamling serve`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.section import Section
from streamling.pipeline.config.values import folded

Role = Annotated[Literal["viewer", "operator", "admin"], folded("viewer", "operator", "admin")]


class TokenSettings(Section):
    """A bearer token of the API; exactly one of ``value``, ``file`` and ``sha256``."""

    value: SecretStr | None = Field(
        default=None, description="The token itself; better in a variable than in the file."
    )
    file: values.LocalPath | None = Field(default=None, description="File that contains the token.")
    sha256: str | None = Field(
        default=None,
        pattern="^[0-9a-fA-F]{64}$",
        description="SHA-256 of the token in hex, which cannot be used as a token.",
    )
    role: Role = Field(
        default="viewer",
        description="viewer reads, operator also changes pipelines, admin also changes secrets and sees the audit log.",
    )
    namespaces: values.Names = Field(default=("*",), description="Namespaces that the token may use; `*` means all.")


class ServeSettings(Section):
    """`streamling serve`."""

    listen: str = Field(
        default="127.0.0.1:4195",
        pattern=r"^.+:\d{1,5}$",
        description="Address and port of the API; an address other than loopback requires `serve.tokens`.",
    )
    dir: values.LocalPath | None = Field(default=None, description="Folder of pipeline files to run.")
    hosts: values.Names = Field(
        default=(), description="Further names under which clients reach the API, as they appear in the Host header."
    )
    variables: values.Names = Field(
        default=(),
        examples=["PIPELINE_*"],
        description="Environment variables that definitions from the API may use as `${VAR}`; `PIPELINE_*` matches "
        "several.",
    )
    requests_per_minute: int = Field(default=3000, ge=1, description="Most requests per minute and token.")
    concurrent_slow_requests: int = Field(
        default=8,
        ge=1,
        description="Most requests of one token at a time that wait for pipelines, sources or the database: "
        "checkpoints, validations, previews, changes. Further ones are answered with 429.",
    )
    tokens: dict[str, TokenSettings] = Field(default={}, description="Tokens of the API by the name of their owner.")


class ServeConfig(CoreConfig):
    """What the server adds to the configuration."""

    serve: ServeSettings = Field(default=ServeSettings())
