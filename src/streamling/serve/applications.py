"""From the specification of a pipeline to its configuration and node types, within what the operator allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from streamling.connectors.kafka.config import KafkaConfig
from streamling.engine.run.app import App
from streamling.network.hosts import matches_any
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.pipeline_settings import config_of_pipeline
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.model import Pipeline
from streamling.pipeline.secrets.store import SecretStore, StoredSecrets
from streamling.plugins.shared import SharedResources
from streamling.serve.config import ServeConfig
from streamling.serve.runtime import PipelineSpec
from streamling.serve.sizes import SIZES

_CONFIG_FILE = "config"


@dataclass(frozen=True)
class Applications:
    """Makes the `App` of each pipeline."""

    #: the configuration of the server
    config: AppConfig
    config_name: str
    cwd: Path
    env: Mapping[str, str]
    secrets: SecretStore
    #: what all pipelines of the process share: clients and connections with equal settings
    shared: SharedResources = field(default_factory=SharedResources, repr=False)

    def of(self, spec: PipelineSpec) -> App:
        """The configuration and the node types of a pipeline; raises `InvalidPipeline`."""
        update = {
            "application_id": spec.key.application_id,
            # the reconciler restarts what is unreachable; a start that waits would only block another one
            **({} if "startup_timeout_sec" in spec.config else {"startup_timeout_sec": 0.0}),
        }
        # read on use: a store that cannot be decrypted concerns only the pipelines that name its secrets
        stored = StoredSecrets(self.secrets)
        app = App.of(
            self._config(spec).model_copy(update=update),
            env=self._variables(spec),
            stored_secrets=stored,
            shared=self.shared,
        )
        return app if spec.preview_rows is None else app.for_preview(spec.preview_rows)

    @staticmethod
    def pipeline(app: App, spec: PipelineSpec) -> Pipeline:
        """The pipeline of a specification, for a preview without its sinks."""
        text = spec.definition if spec.preview_rows is None else app.without_sinks(spec.definition)
        return app.parse(text, definition_file(spec))

    def check(self, spec: PipelineSpec) -> None:
        """All checks that need no JVM; raises `InvalidPipeline`, or another error if a source could not be asked."""
        from streamling.engine.state.memory import MemoryState

        app = self.of(spec).without_waiting()
        app.run(self.pipeline(app, spec), MemoryState()).check_without_spark()

    def _config(self, spec: PipelineSpec) -> AppConfig:
        size = SIZES[spec.size]
        config = self.config
        if spec.config or size.settings():
            config = config_of_pipeline(
                load_yaml(json.dumps(spec.config), _CONFIG_FILE),
                server=config,
                defaults=size.settings(),
                limits=size.limits(config),
                load=lambda overrides: load_config(self.config_name, cwd=self.cwd, env=self.env, overrides=overrides),
                may_receive_credentials=lambda host: matches_any(host, config.network.credential_hosts or ()),
            )
        return config if spec.is_trusted else _for_stranger(config, spec)

    def _variables(self, spec: PipelineSpec) -> Mapping[str, str]:
        if spec.is_trusted:
            return self.env
        allowed = self.config.part(ServeConfig).serve.variables
        return {name: text for name, text in self.env.items() if any(fnmatchcase(name, each) for each in allowed)}

    def as_object(self) -> dict[str, Any]:
        """What another process needs to make the same applications."""
        return {"config_name": self.config_name, "cwd": str(self.cwd)}

    @classmethod
    def of_object(cls, data: Mapping[str, Any]) -> Applications:
        """Made from `as_object` in a process with the same environment."""
        cwd, env, name = Path(data["cwd"]), dict(os.environ), str(data["config_name"])
        config = load_config(name, cwd=cwd, env=env)
        return cls(config, name, cwd, env, SecretStore.of(config, env))


def definition_file(spec: PipelineSpec) -> str:
    """How errors name the definition of a pipeline."""
    return f"{spec.key.name}.yaml"


def _for_stranger(config: AppConfig, spec: PipelineSpec) -> AppConfig:
    """The configuration for a definition whose author may not use everything that the server has."""
    source = config.part(KafkaConfig).kafka_source
    hosts = config.network.credential_hosts or ()
    update: dict[str, Any] = {"network": config.network.model_copy(update={"credential_hosts": hosts})}
    if (group := source.consumer_group_id) is not None:  # the same for all pipelines: each gets groups of its own
        own = source.model_copy(update={"consumer_group_id": f"{group}.{spec.key.application_id}"})
        update["kafka_source"] = own
    return config.model_copy(update=update)
