"""The state of a configuration: where it is, and what was written before pipelines had an application id."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from streamling.builtins import builtins
from streamling.engine.state.config import StateConfig
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.identity import LEGACY_APPLICATION_ID
from streamling.plugins.shared import SharedResources
from streamling.plugins.state_backend import StateBackend, StateStore


def state_store(config: AppConfig, shared: SharedResources | None = None) -> StateStore[Any]:
    """Return the place of the state of ``config``, in the namespace of its application. Its connections are those of
    ``shared``."""
    settings = config.part(StateConfig).state_backend
    builtin = next(each for each in builtins() if settings.backend_type in each.state_backends)
    found: StateStore[Any] = builtin.load(builtin.state_backends[settings.backend_type])(
        config.application_id,
        settings.block,
        shutdown_budget=config.shutdown_budget_secs,
        shared=shared or SharedResources(),
    )
    return found


def find_legacy_state(config: AppConfig, belongs: Callable[[str], bool]) -> StateBackend | None:
    """Return the entries that a pipeline wrote before it had its own application id, if there are any whose keys
    ``belongs`` accepts, and none under the application id of ``config``."""
    if config.application_id == LEGACY_APPLICATION_ID:
        return None
    former = state_store(config.model_copy(update={"application_id": LEGACY_APPLICATION_ID})).find()
    if former is not None and not any(map(belongs, former.items())):
        former.close()
        return None
    return former


def migrate_legacy_state(state: StateBackend, config: AppConfig, belongs: Callable[[str], bool]) -> int:
    """Move the entries of `find_legacy_state` to ``state``, which belongs to ``config`` and has none yet. Returns their
    number. A crash in between leaves them in both places; the next start uses the new one."""
    former = None if state.items() else find_legacy_state(config, belongs)
    if former is None:
        return 0
    with former:
        entries = {key: value for key, value in former.items().items() if belongs(key)}
        state.put_many(entries)
        former.put_many(dict.fromkeys(entries))
    return len(entries)


# ── which node a key belongs to ──────────────────────────────────────────────────────────────────────────────────


def owner(key: str, names: frozenset[str] = frozenset()) -> str:
    """Return the node that a state key belongs to: one of ``names`` if it matches, otherwise as the key's form says."""
    for pattern in (pattern for builtin in builtins() for pattern in builtin.state_keys):
        if found := re.fullmatch(pattern, key):
            return found["node"]
    fitting = (name for name in names if key == name or key.startswith((f"{name}:", f"{name}[")))
    return max(fitting, key=len, default=re.split(r"[:\[]", key, maxsplit=1)[0])
