"""From the specification of a pipeline to its configuration and node types, within what the operator allows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from pydantic import SecretStr

from streamling.config import AppConfig, load_config
from streamling.config.values import secret_key
from streamling.document.loader import load_yaml
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.output.redaction import add_secrets
from streamling.runtime.app import App
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
        *("pipeline_definition_location", "plugin", "secrets", "serve", "spark", "state_backend", "test_settings"),
    )
)
_CONFIG_FILE = "config"


class SecretStore(Protocol):
    """Secrets that pipelines name as ``${secret:NAME}``."""

    def names(self) -> list[str]: ...

    def get(self, name: str) -> str | None:
        """The value; None if there is no such secret."""

    def set(self, name: str, value: str) -> None: ...

    def delete(self, name: str) -> bool:
        """Delete a secret; False if there was none."""


@dataclass(frozen=True)
class GivenSecrets:
    """Secrets that cannot be changed; a server without a store has none."""

    values: Mapping[str, str] = field(default_factory=dict, repr=False)

    def names(self) -> list[str]:
        return list(self.values)

    def get(self, name: str) -> str | None:
        return self.values.get(name)

    def set(self, name: str, value: str) -> None:
        raise StreamlingError.user("this server has no secret store", remedy="set secrets.<name> in its configuration")

    def delete(self, name: str) -> bool:
        return False


@dataclass(frozen=True)
class Applications:
    """Makes the `App` of each pipeline."""

    #: the configuration of the server
    config: AppConfig
    config_name: str
    cwd: Path
    env: Mapping[str, str]
    secrets: SecretStore

    def of(self, spec: PipelineSpec) -> App:
        """The configuration and the node types of a pipeline; raises `InvalidPipeline`."""
        config = self._config(spec)
        stored = self._stored_secrets()
        update = {
            "application_id": spec.key.application_id,
            "secrets": {**stored, **config.secrets},
            # the reconciler restarts what is unreachable; a start that waits would only block another one
            **({} if "startup_timeout_sec" in spec.config else {"startup_timeout_sec": 0.0}),
        }
        return App.of(config.model_copy(update=update), env=self._variables(spec))

    def check(self, spec: PipelineSpec) -> None:
        """All checks that need no JVM; raises `InvalidPipeline`, or another error if a source could not be asked."""
        from streamling.state.memory import MemoryState

        app = self.of(spec).without_waiting()
        app.run(app.parse(spec.definition, definition_file(spec)), MemoryState()).check_without_spark()

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

    def _stored_secrets(self) -> dict[str, SecretStr]:
        found = {name: value for name in self.secrets.names() if (value := self.secrets.get(name)) is not None}
        add_secrets(found.values())
        return {secret_key(name): SecretStr(value) for name, value in found.items()}

    def as_object(self) -> dict[str, Any]:
        """What another process needs to make the same applications; contains secrets."""
        stored = {name: value for name in self.secrets.names() if (value := self.secrets.get(name)) is not None}
        return {"config_name": self.config_name, "cwd": str(self.cwd), "secrets": stored}

    @classmethod
    def of_object(cls, data: Mapping[str, Any]) -> Applications:
        """Made from `as_object` in a process with the same environment."""
        cwd, env, name = Path(data["cwd"]), dict(os.environ), str(data["config_name"])
        return cls(load_config(name, cwd=cwd, env=env), name, cwd, env, GivenSecrets(data["secrets"]))


def definition_file(spec: PipelineSpec) -> str:
    """How errors name the definition of a pipeline."""
    return f"{spec.key.name}.yaml"
