"""From the specification of a pipeline to its configuration and node types, within what the operator allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from streamling.config import AppConfig, load_config
from streamling.document.loader import load_yaml
from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.model import Pipeline
from streamling.plugins.shared import SharedResources
from streamling.runtime.app import App
from streamling.secrets.store import SecretStore, StoredSecrets
from streamling.serve.config import ServeConfig
from streamling.serve.runtime import PipelineSpec
from streamling.serve.sizes import SIZES

#: Settings that concern the server or could make it run other code: the operator decides about them.
_OPERATOR_SETTINGS = frozenset(
    (
        *(
            "admin_api_host",
            "admin_api_port",
            "admin_api_token",
            "application_id",
            "cache_dir",
            "log_format",
            "log_level",
        ),
        *(
            "pipeline_definition_location",
            "plugin",
            "secret_store",
            "secrets",
            "serve",
            "spark",
            "state_backend",
            "test_settings",
        ),
    )
)
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
        config = self._config(spec)
        update = {
            "application_id": spec.key.application_id,
            # the reconciler restarts what is unreachable; a start that waits would only block another one
            **({} if "startup_timeout_sec" in spec.config else {"startup_timeout_sec": 0.0}),
        }
        # read on use: a store that cannot be decrypted concerns only the pipelines that name its secrets
        stored = StoredSecrets(self.secrets)
        app = App.of(
            config.model_copy(update=update), env=self._variables(spec), stored_secrets=stored, shared=self.shared
        )
        return app if spec.preview_rows is None else app.for_preview(spec.preview_rows)

    @staticmethod
    def pipeline(app: App, spec: PipelineSpec) -> Pipeline:
        """The pipeline of a specification, for a preview without its sinks."""
        text = spec.definition if spec.preview_rows is None else app.without_sinks(spec.definition)
        return app.parse(text, definition_file(spec))

    def check(self, spec: PipelineSpec) -> None:
        """All checks that need no JVM; raises `InvalidPipeline`, or another error if a source could not be asked."""
        from streamling.state.memory import MemoryState

        app = self.of(spec).without_waiting()
        app.run(self.pipeline(app, spec), MemoryState()).check_without_spark()

    def _config(self, spec: PipelineSpec) -> AppConfig:
        overrides = {**SIZES[spec.size].settings(), **spec.config}
        if not overrides:
            return self.config
        reserved = sorted(_OPERATOR_SETTINGS.intersection(spec.config))
        if reserved:
            raise InvalidPipeline(
                [
                    Problem(
                        f"the setting '{name}' cannot be set for one pipeline",
                        _CONFIG_FILE,
                        remedy="set it in the configuration of the server",
                    )
                    for name in reserved
                ]
            )
        document = load_yaml(json.dumps(overrides), _CONFIG_FILE)
        return load_config(self.config_name, cwd=self.cwd, env=self.env, overrides=document)

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
