"""From the record of a pipeline to its configuration and node types, within what the operator allows."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamling.connectors.kafka.config import KafkaConfig
from streamling.engine.launch.launcher import Launcher
from streamling.engine.run.run import PipelineRun
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.network.hosts import matches_any
from streamling.observe.telemetry.reporting import is_reported
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.pipeline_settings import config_of_pipeline
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.model import Pipeline
from streamling.pipeline.secrets.store import SecretStore, StoredSecrets
from streamling.plugins.connections import ExternalPosition
from streamling.plugins.shared import SharedResources
from streamling.serve.config import ServeConfig
from streamling.serve.model import PipelineKey, PipelineRecord
from streamling.serve.runtime import Preview
from streamling.serve.sizes import SIZES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

#: the setting of a Spark session that names the scheduler pool of its pipeline
POOL = "spark.scheduler.pool"

_CONFIG_FILE = "config"
#: how long the result of a check is good for a start
_KEPT_SECONDS = 30.0
#: fields of a record that decide what runs
_DECIDING = ("definition", "config", "size", "managed_by")


@dataclass(frozen=True)
class ParsedPipeline:
    """A record and its pipeline."""

    record: PipelineRecord
    launcher: Launcher
    pipeline: Pipeline
    #: a run without a state, whose sources have been asked
    checked: PipelineRun | None = None


class _CheckedPipelines:
    """Pipelines that wait for their start, for a short time: their sources may have other columns later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: with the time at which each was checked
        self._kept: dict[PipelineKey, tuple[float, ParsedPipeline]] = {}

    def put(self, checked: ParsedPipeline) -> None:
        now = time.monotonic()
        with self._lock:
            recent = {key: kept for key, kept in self._kept.items() if kept[0] > now - _KEPT_SECONDS}
            self._kept = {**recent, checked.record.key: (now, checked)}

    def take(self, record: PipelineRecord) -> ParsedPipeline | None:
        with self._lock:
            since, checked = self._kept.pop(record.key, (0.0, None))
        if checked is None or since < time.monotonic() - _KEPT_SECONDS:
            return None
        same = all(getattr(checked.record, name) == getattr(record, name) for name in _DECIDING)
        return checked if same else None


@dataclass(frozen=True)
class Launchers:
    """Makes the `Launcher` of each pipeline."""

    #: the configuration of the server
    config: AppConfig
    config_name: str
    cwd: Path
    env: Mapping[str, str]
    secrets: SecretStore
    #: what all pipelines of the process share: clients and connections with equal settings
    shared: SharedResources = field(default_factory=SharedResources, repr=False)
    _checked: _CheckedPipelines = field(default_factory=_CheckedPipelines, repr=False)

    def of(self, record: PipelineRecord, preview: Preview | None = None) -> Launcher:
        """Return the configuration and the node types of a pipeline; raises `InvalidPipeline`."""
        update = {
            "application_id": record.key.application_id,
            # the reconciler restarts what is unreachable; a start that waits would only block another one
            **({} if "startup_timeout_sec" in record.config else {"startup_timeout_sec": 0.0}),
        }
        # read on use: a store that cannot be decrypted concerns only the pipelines that name its secrets
        stored = StoredSecrets(self.secrets)
        launcher = Launcher.of(
            self._config(record).model_copy(update=update),
            env=self._variables(record),
            stored_secrets=stored,
            shared=self.shared,
        )
        counted, pool = is_reported(launcher.config, None), {POOL: str(record.key)}
        launcher = replace(launcher, count_in_spark=counted, runs_once=True, spark_settings=pool)
        return launcher if preview is None else launcher.for_preview(preview.rows)

    def parse(self, record: PipelineRecord, preview: Preview | None = None) -> ParsedPipeline:
        """Read the definition; raise `InvalidPipeline` if it is wrong."""
        launcher = self.of(record, preview)
        return ParsedPipeline(record, launcher, launcher.parse(record.definition, record.file))

    def check(self, record: PipelineRecord, preview: Preview | None = None) -> ParsedPipeline:
        """Run all checks that need no JVM; raise `InvalidPipeline`, or another error if a source could not be asked."""
        parsed = self.parse(record, preview)
        if not record.is_trusted and (problems := SIZES[record.size].problems(parsed.pipeline, self.config)):
            raise InvalidPipeline(problems)
        run = parsed.launcher.without_waiting().run(parsed.pipeline)
        run.check_without_spark()
        return replace(parsed, checked=run)

    def keep(self, checked: ParsedPipeline) -> None:
        """Keep a definition that was checked for the start that follows, which then asks no source."""
        record = checked.record
        starts_here = record.desired == "running" and record.isolation == "shared"
        if starts_here and "startup_timeout_sec" not in record.config:  # otherwise a start waits for systems
            self._checked.put(checked)

    def take(self, record: PipelineRecord, preview: Preview | None = None) -> ParsedPipeline:
        """Return what was kept for ``record``, once; it is parsed if there is nothing, the record has changed since, or
        the check is too old."""
        return self._checked.take(record) or self.parse(record, preview)

    def delete_state(self, spark: Callable[[], SparkSession], record: PipelineRecord) -> None:
        """Delete the entries of the state backend and the positions that nodes store elsewhere, such as the offsets of
        consumer groups. The pipeline does not run."""
        try:
            launcher = self.of(record)
        except StreamlingError:  # its settings are invalid: nothing was ever read with them
            launcher = self.of(record.model_copy(update={"config": {}}))
        positions = _external_positions(launcher, spark, record)
        store = launcher.state_store
        with store.locked():
            for position in positions:
                position.reset()
            if (state := store.find()) is not None:
                with state:
                    state.clear()

    def _config(self, record: PipelineRecord) -> AppConfig:
        size = SIZES[record.size]
        config = self.config
        if record.config or size.settings():
            config = config_of_pipeline(
                load_yaml(json.dumps(record.config), _CONFIG_FILE),
                server=config,
                defaults=size.settings(),
                limits=size.limits(config),
                load=lambda overrides: load_config(self.config_name, cwd=self.cwd, env=self.env, overrides=overrides),
                may_receive_credentials=lambda host: matches_any(host, config.network.credential_hosts or ()),
            )
        return config if record.is_trusted else _for_stranger(config, record)

    def _variables(self, record: PipelineRecord) -> Mapping[str, str]:
        if record.is_trusted:
            return self.env
        allowed = self.config.part(ServeConfig).serve.variables
        return {name: text for name, text in self.env.items() if any(fnmatchcase(name, each) for each in allowed)}

    def as_object(self) -> dict[str, Any]:
        """Return what another process needs to make the same launchers."""
        return {"config_name": self.config_name, "cwd": str(self.cwd)}

    @classmethod
    def of_object(cls, data: Mapping[str, Any]) -> Launchers:
        """Create an instance from `as_object` in a process with the same environment."""
        cwd, env, name = Path(data["cwd"]), dict(os.environ), str(data["config_name"])
        config = load_config(name, cwd=cwd, env=env)
        return cls(config, name, cwd, env, SecretStore.of(config, env))


def _external_positions(
    launcher: Launcher, spark: Callable[[], SparkSession], record: PipelineRecord
) -> list[ExternalPosition]:
    try:
        pipeline = launcher.parse(record.definition, record.file)
        return launcher.run(pipeline).node_declarations.external_positions(spark, None)
    except StreamlingError as error:
        log.warning("%s: only its entries in the state backend are deleted: %s", record.key, error)
        return []


def _for_stranger(config: AppConfig, record: PipelineRecord) -> AppConfig:
    """Return the configuration for a definition whose author may not use everything that the server has."""
    source = config.part(KafkaConfig).kafka_source
    hosts = config.network.credential_hosts or ()
    update: dict[str, Any] = {"network": config.network.model_copy(update={"credential_hosts": hosts})}
    if (group := source.consumer_group_id) is not None:  # the same for all pipelines: each gets groups of its own
        own = source.model_copy(update={"consumer_group_id": f"{group}.{record.key.application_id}"})
        update["kafka_source"] = own
    return config.model_copy(update=update).for_stranger()
