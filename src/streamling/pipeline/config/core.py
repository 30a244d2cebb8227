"""The settings of the runtime itself."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, PrivateAttr, SecretStr, model_validator

from streamling.pipeline.config import values
from streamling.pipeline.config.grants import AT_LEAST, AT_MOST, FREE
from streamling.pipeline.config.identity import LEGACY_APPLICATION_ID
from streamling.pipeline.config.section import Section, no_effect, unset_means

PartT = TypeVar("PartT")


class PluginSettings(Section):
    """Plugins and their secrets: ``plugin.<name>.<key>``."""

    path: values.LocalPath | None = Field(default=None, description="Plugin file, or a folder of plugin files.")
    channel_capacity: int = Field(
        default=50,
        ge=1,
        json_schema_extra=unset_means("`internal_buffer_size`"),
        description="Maximum number of batches queued for a plugin node.",
    )
    preprocessor_ids: values.Names = Field(default=(), description="Preprocessors to run, in order.")
    preprocessor_options: values.AnyMap = Field(
        default={}, description="Options of the preprocessors by id; options without an id apply to all."
    )
    side_output_ids: values.Names = Field(default=(), description="Side outputs to attach to the sources.")
    side_output_options: values.AnyMap = Field(
        default={}, description="Options of the side outputs by id; options without an id apply to all."
    )
    secrets: dict[str, dict[str, SecretStr]] = Field(
        default={},
        description=(
            "Secrets by plugin and key; can also be set as `plugin.<name>.<key>` or `…PLUGIN__<NAME>__<KEY>`."
        ),
    )


class SparkSettings(Section):
    """The Spark session."""

    master: str = Field(default="local[*]", description="Spark master: this machine, or any cluster.")
    conf: values.PlainMap = Field(
        default={}, description="Spark settings; as an environment variable `k=v,k=v` or JSON."
    )
    environment: values.Names = Field(
        default=(),
        description=(
            "Further environment variables passed to Spark's processes, besides those they need; "
            "`AWS_*` matches several."
        ),
    )


class SecretStoreSettings(Section):
    """The encrypted store of `streamling secret`."""

    path: values.LocalPath = Field(
        default=Path("./secrets.enc"), validate_default=True, description="File with the encrypted secrets."
    )
    key_file: values.LocalPath | None = Field(
        default=None,
        description="File with the key, created on first use.",
        json_schema_extra=unset_means("`streamling/secrets.key` in the user's configuration folder"),
    )
    key: SecretStr | None = Field(
        default=None,
        description="The key itself, in place of the file: 32 bytes in base64; after a comma, former keys.",
    )


class NetworkSettings(Section):
    """Which systems pipelines connect to."""

    deny_private: bool = Field(
        default=False,
        description="Reject private, loopback, link-local and metadata addresses in all connections of pipelines.",
    )
    allow: values.Names = Field(
        default=(),
        examples=["db.internal,10.1.0.0/16"],
        description="Names (`*` matches any text), addresses and networks that `deny_private` accepts.",
    )
    credential_hosts: values.Names | None = Field(
        default=None,
        examples=["api.example.com,*.internal"],
        description="Hosts, written as in `allow`, to which a pipeline may direct credentials of this configuration. "
        "Default: all for pipeline files, none for pipelines from the API of `streamling serve`.",
    )


class LiveRowsSettings(Section):
    """Rows shown per node."""

    records_per_topology_node: int = Field(default=15, ge=1, description="Rows kept per node.")
    refresh_in_secs: float = Field(default=30, gt=0, description="Time window of these rows.")


class TestSettings(Section):
    """Settings for tests of whole pipelines."""

    __test__ = False  # keeps pytest from collecting the class
    no_effect = "only the test suite of the Rust implementation uses it"

    telemetry_assertions_enabled: bool = Field(
        default=True,
        json_schema_extra={"environment": "STREAMLING_ENABLE_TELEMETRY_ASSERTIONS"},
        description="No effect: only the test suite of the Rust implementation uses it.",
    )
    prometheus_max_attempts: int = Field(
        default=30,
        ge=1,
        json_schema_extra={"environment": "STREAMLING_TEST_PROMETHEUS_MAX_ATTEMPTS"},
        description="No effect: only the test suite of the Rust implementation uses it.",
    )
    prometheus_sleep_ms: int = Field(
        default=500,
        ge=0,
        json_schema_extra={"environment": "STREAMLING_TEST_PROMETHEUS_SLEEP_MS"},
        description="No effect: only the test suite of the Rust implementation uses it.",
    )


def default_cache_dir(env: Mapping[str, str]) -> Path:
    """Return the user's cache folder on this platform, with our name appended."""
    home = Path(env.get("HOME") or Path.home())
    if cache_home := env.get("XDG_CACHE_HOME"):
        return Path(cache_home) / "streamling"
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "streamling"


class CoreConfig(Section):
    """The settings of the runtime itself. Connectors add theirs in subclasses, which `AppConfig` combines."""

    application_id: str = Field(
        default=LEGACY_APPLICATION_ID,
        min_length=1,
        description="Name of this pipeline in the state, in consumer groups and in metrics.",
        json_schema_extra=unset_means("`name` in the pipeline file, otherwise its path without the extension"),
    )
    log_format: values.LogFormat = Field(
        default="text", description="Log format: text for people or JSON for machines."
    )
    log_level: str = Field(
        default="info",
        json_schema_extra={"environment": "RUST_LOG"},
        description="Minimum level of log lines: error, warn, info, debug, trace.",
    )
    pipeline_definition_location: values.LocalPath = Field(
        default=Path("./pipeline.yaml"),
        validate_default=True,
        description="Pipeline file to use if the command line names none.",
    )
    internal_buffer_size: int = Field(
        default=2, ge=1, json_schema_extra=AT_MOST, description="Maximum number of batches queued for a node."
    )
    num_records_before_stop: int | None = Field(
        default=None, ge=1, json_schema_extra=FREE, description="Stop after this many rows."
    )
    checkpoint_interval_sec: float = Field(
        default=5, gt=0, json_schema_extra=AT_LEAST, description="Time between two checkpoints."
    )
    checkpoint_timeout_sec: float = Field(
        default=300, gt=0, json_schema_extra=AT_MOST, description="The pipeline stops if a checkpoint takes longer."
    )
    startup_timeout_sec: float = Field(
        default=10,
        ge=0,
        json_schema_extra=AT_MOST,
        description=("Maximum time to wait at start-up for a broker, registry or database that is unreachable."),
    )
    enforce_primary_keys: bool = Field(
        default=False, json_schema_extra=FREE, description="Reject pipelines with sinks that have no key."
    )
    job_mode: bool = Field(
        default=False, json_schema_extra=FREE, description="Stop when all bounded sources have ended."
    )
    drain_policy: values.DrainPolicy = Field(
        default="auto", json_schema_extra=FREE, description="What happens to rows in progress when the pipeline stops."
    )
    shutdown_budget_secs: float = Field(
        default=25,
        gt=0,
        json_schema_extra=AT_MOST,
        description="Maximum time from a signal to the exit of the process.",
    )
    plugin_drain_budget_secs: float = Field(
        default=60,
        gt=0,
        json_schema_extra=no_effect("plugins use shutdown_budget_secs like all nodes"),
        description="No effect: plugins use `shutdown_budget_secs` like all nodes.",
    )
    backpressure_event_threshold_ms: int = Field(
        default=100,
        ge=0,
        json_schema_extra=FREE,
        description="A node that waits longer than this for a node downstream counts as one backpressure event.",
    )
    preview_tolerant_mode: bool = Field(
        default=False,
        description="Keep the process and its admin API when the pipeline has ended or failed, until a signal arrives.",
    )

    live_data_inspect_enabled: bool = Field(
        default=False,
        json_schema_extra=FREE,
        description="Keep rows of all nodes for the admin API, also while nobody watches them; otherwise only rows "
        "that are in Python anyway.",
    )
    live_data_inspect: LiveRowsSettings = Field(default=LiveRowsSettings())
    admin_api_enabled: bool = Field(default=True, description="Serve the admin API while a pipeline runs.")
    admin_api_host: str = Field(default="127.0.0.1", description="Address the admin API listens on.")
    admin_api_port: int = Field(
        default=3000,
        ge=0,
        le=65535,
        description="Port of the admin API; 0: any free port. If the port is not set and 3000 is taken, a free one "
        "is used.",
    )
    admin_api_token: SecretStr | None = Field(
        default=None,
        description="Bearer token; required if the admin API listens on an address other than loopback.",
    )
    secrets: dict[str, SecretStr] = Field(
        default={},
        description="Value of `${secret:NAME}` in pipeline files, by name; takes precedence over the secret store.",
    )
    secret_store: SecretStoreSettings = Field(default=SecretStoreSettings())
    spark: SparkSettings = Field(default=SparkSettings())
    network: NetworkSettings = Field(default=NetworkSettings())
    cache_dir: values.LocalPath = Field(
        default_factory=lambda: default_cache_dir(os.environ),
        description="Folder for start-up archives and downloaded Spark connectors.",
        json_schema_extra=unset_means("the user's cache folder + `/streamling`"),
    )
    plugin: PluginSettings = Field(default=PluginSettings())

    test_settings: TestSettings = Field(default=TestSettings())

    _config_file: Path | None = PrivateAttr(default=None)
    _is_for_stranger: bool = PrivateAttr(default=False)

    def model_post_init(self, context: Any, /) -> None:
        self._config_file = (context or {}).get("config_file")

    @property
    def config_file(self) -> Path | None:
        """The file that the configuration was read from, if there is one."""
        return self._config_file

    @property
    def is_for_stranger(self) -> bool:
        """Whether the author of the pipeline may not see the machine: the definition comes from the API of a server."""
        return self._is_for_stranger

    def for_stranger(self) -> Self:
        """Return the same for a pipeline from the API of a server."""
        copy = self.model_copy()
        copy._is_for_stranger = True
        return copy

    def part(self, kind: type[PartT]) -> PartT:
        """Return the configuration as declared by ``kind``, which has the settings of one connector."""
        assert isinstance(self, kind), f"{kind.__name__} is not part of this configuration"
        return self

    @model_validator(mode="after")
    def _require_token(self) -> Self:
        if self.admin_api_token is None and not _is_loopback(self.admin_api_host):
            raise ValueError("admin_api_token is required when admin_api_host is not a loopback address")
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
