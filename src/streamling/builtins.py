"""The built-in connectors and transforms.

A package declares a `Builtin` in its ``__init__.py``. The packages in the folders of connectors and transforms are
found; `_OTHERS` lists the others. Nothing else refers to them by name, and their modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

#: folders of which every package is one
_ROOMS = ("transforms", "connectors")
_OTHERS = ("streamling.connectors", "streamling.engine.state", "streamling.observe.telemetry", "streamling.serve")


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
    root = Path(__file__).parent
    found = [
        f"streamling.{room}.{file.parent.name}"
        for room in _ROOMS
        for file in sorted((root / room).glob("*/__init__.py"))
    ]
    return tuple(import_module(package).BUILTIN for package in (*found, *_OTHERS))
