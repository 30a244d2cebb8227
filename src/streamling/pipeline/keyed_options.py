"""Options in the configuration for plugins that no node of a pipeline file names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any


def options_for(id: str, options: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The options of plugin ``id``: those under its id, and those that stand under no id and are for all. ``known``
    are the ids of all plugins of the kind."""
    names = {_folded(each) for each in (*known, id)}
    keyed = {_folded(key): value for key, value in options.items() if _is_keyed(key, value, names)}
    shared = {key: value for key, value in options.items() if not _is_keyed(key, value, names)}
    return {**shared, **(keyed.get(_folded(id)) or {})}


def _is_keyed(key: str, value: Any, names: Collection[str]) -> bool:
    return _folded(key) in names and (value is None or isinstance(value, Mapping))


def _folded(id: str) -> str:
    """As environment variables can spell it: ``ACME_PATHS`` stands for ``acme.paths``."""
    return re.sub(r"\W", "_", id).lower()
