"""Options in the configuration for plugins that are not nodes of a pipeline file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any


def options_for(id: str, options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return the options of plugin ``id``: those under its id, and those under no id, which are for all plugins.
    ``known`` are the ids of all plugins of the kind."""
    names = {_folded(each) for each in (*known, id)}
    keyed = {_folded(key): value for key, value in options.items() if _is_keyed(key, value, names)}
    shared = {key: value for key, value in options.items() if not _is_keyed(key, value, names)}
    return {**shared, **(keyed.get(_folded(id)) or {})}


def _is_keyed(key: str, value: Any, names: Collection[str]) -> bool:
    return _folded(key) in names and (value is None or isinstance(value, Mapping))


def _folded(id: str) -> str:
    """Return ``id`` as an environment variable can contain it: ``ACME_PATHS`` means ``acme.paths``."""
    return re.sub(r"\W", "_", id).lower()
