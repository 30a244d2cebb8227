"""Registries with plugins."""

from __future__ import annotations

from pathlib import Path

from streamling.plugins.loader import Plugins
from streamling.plugins.registry import Registry


def load_plugins(registry: Registry, path: str | Path | None) -> Registry:
    """Register everything that is installed and everything in ``path``."""
    Plugins(registry, path).load_all()
    return registry
