"""The connectors and transforms that are built in, and what each of them brings along.

A package declares a `Builtin` in its ``__init__.py``; `_PACKAGES` lists the packages. Nothing else knows them by name,
and nothing inside them is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

_PACKAGES = (
    "streamling.runtime",
    "streamling.telemetry",
    "streamling.transforms.sql",
    "streamling.transforms.script",
    "streamling.transforms.dynamic_table",
    "streamling.connectors",
    "streamling.connectors.file",
    "streamling.connectors.kafka",
    "streamling.connectors.postgres",
    "streamling.connectors.http",
    "streamling.connectors.clickhouse",
    "streamling.connectors.hybrid",
)


@dataclass(frozen=True)
class Builtin:
    """What one package adds to the runtime. A target is ``module:name``, the module inside the package."""

    package: str
    #: operator classes by the `type` of their nodes; an options class where the run-time is still to come
    sources: Mapping[str, str] = field(default_factory=dict)
    transforms: Mapping[str, str] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    #: a subclass of `CoreConfig` with further settings
    config: str | None = None
    #: metrics that its nodes record, by name
    metrics: str | None = None
    #: file with the jars of Spark connectors, by connector
    jars: str | None = None
    #: folder with Java sources that these connectors need
    java: str | None = None
    #: Spark settings that its nodes run best with; those of the user win
    spark_settings: Mapping[str, str] = field(default_factory=dict)

    def load(self, target: str) -> Any:
        """What ``target`` stands for; imports its module."""
        module, name = target.split(":")
        return getattr(import_module(f"{self.package}.{module}"), name)

    def file(self, name: str) -> Path:
        """A file of the package."""
        found = import_module(self.package).__file__
        assert found is not None
        return Path(found).with_name(name)


@cache
def builtins() -> tuple[Builtin, ...]:
    """All of them, in a fixed order."""
    return tuple(import_module(package).BUILTIN for package in _PACKAGES)
