"""The configuration of script transforms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import AT_MOST, AT_MOST_ROWS
from streamling.pipeline.config.section import Section, unset_means


class ScriptSettings(Section):
    """Settings of the script transform."""

    engine: Literal["quickjs", "v8"] = Field(
        default="quickjs", description="quickjs in WebAssembly, or the faster v8 (requires `streamling[v8]`)."
    )
    timeout_sec: float = Field(default=60, gt=0, json_schema_extra=AT_MOST, description="Time limit for one batch.")
    memory_limit_mb: int = Field(
        default=64, ge=8, le=2048, json_schema_extra=AT_MOST, description="Memory limit of one sandbox, in MiB."
    )
    runtime_wasm_file_path: values.LocalPath | None = Field(
        default=None, description="Another WebAssembly runtime of quickjs-rs."
    )
    parallelism: int = Field(
        default=4,
        ge=1,
        json_schema_extra={**AT_MOST, **unset_means("`1`")},
        description="Default of `parallelism` in script nodes.",
    )
    batch_size: int = Field(
        default=0, ge=0, json_schema_extra=AT_MOST_ROWS, description="Default of `batch_size` in script nodes."
    )


class ScriptConfig(CoreConfig):
    """Settings that script transforms add to the configuration."""

    wasm_script: ScriptSettings = Field(default=ScriptSettings())
