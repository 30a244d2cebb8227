"""The built-in connectors and transforms.

A package declares a `Builtin` in its ``__init__.py``; `_PACKAGES` lists the packages. Nothing else refers to them by
name, and their modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGES = (
    "streamling.engine.state",
    "streamling.observe.telemetry",
    "streamling.transforms.sql",
    "streamling.transforms.script",
    "streamling.transforms.dynamic_table",
    "streamling.connectors",
    "streamling.connectors.file",
    "streamling.connectors.generate",
    "streamling.connectors.kafka",
    "streamling.connectors.postgres",
    "streamling.connectors.http",
    "streamling.connectors.clickhouse",
    "streamling.connectors.hybrid",
    "streamling.serve",
)


@dataclass(frozen=True)
class Builtin:
    """What one package adds to the runtime. A target is ``module:name``, where the module is inside the package."""

    package: str
    #: operator classes by the `type` of their nodes
    sources: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    #: `StateStore` classes by their `state_backend.backend_type`
    state_backends: Mapping[str, str] = field(default_factory=dict)
    #: their settings by the name of the block in `state_backend`, which is the type in lower case
    state_settings: Mapping[str, str] = field(default_factory=dict)
    #: a subclass of `CoreConfig` with further settings
    config: str | None = None
    #: metrics that its nodes record, by name
    metrics: str | None = None
    #: lock file with the jars of Spark packages, by package
    jars: str | None = None
    #: Spark settings for its nodes; the user's settings take precedence
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    #: regular expressions of state keys that do not begin with the name of their node, which is the group ``node``
    state_keys: tuple[str, ...] = ()

    def load(self, target: str) -> Any:
        """Import and return ``target``."""
        module, name = target.split(":")
        return getattr(import_module(f"{self.package}.{module}"), name)

    def file(self, name: str) -> Path:
        """Return a file of the package."""
        found = import_module(self.package).__file__
        assert found is not None
        return Path(found).with_name(name)


@cache
def builtins() -> tuple[Builtin, ...]:
    """Return all of them, in a fixed order."""
    return tuple(import_module(package).BUILTIN for package in _PACKAGES)
