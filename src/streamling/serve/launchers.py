"""From the record of a pipeline to its configuration and node types, within what the operator allows."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamling.connectors.kafka.config import KafkaConfig
from streamling.engine.launch.launcher import Launcher
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.network.hosts import matches_any
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.pipeline_settings import config_of_pipeline
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.secrets.store import SecretStore, StoredSecrets
from streamling.plugins.connections import ExternalPosition
from streamling.plugins.shared import SharedResources
from streamling.serve.config import ServeConfig
from streamling.serve.model import PipelineRecord
from streamling.serve.runtime import Preview
from streamling.serve.sizes import SIZES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_CONFIG_FILE = "config"


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
        return launcher if preview is None else launcher.for_preview(preview.rows)

    def check(self, record: PipelineRecord, preview: Preview | None = None) -> None:
        """All checks that need no JVM; raises `InvalidPipeline`, or another error if a source could not be asked."""
        launcher = self.of(record, preview).without_waiting()
        pipeline = launcher.parse(record.definition, record.file)
        if not record.is_trusted and (problems := SIZES[record.size].problems(pipeline, self.config)):
            raise InvalidPipeline(problems)
        launcher.run(pipeline).check_without_spark()

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
        """Made from `as_object` in a process with the same environment."""
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
