"""The state backend as one node sees it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from streamling.plugins.state_backend import StateBackend


class NodeStateView:
    """Reads and writes all entries of the pipeline; `clear` removes only those of the node."""

    def __init__(self, backend: StateBackend, node: str, others: Collection[str]) -> None:
        """``others`` are the names of the other nodes: a key belongs to the longest name that it starts with."""
        self._backend = backend
        self._node = node
        self._longer = tuple(f"{name}:" for name in others if name.startswith(f"{node}:"))

    @property
    def is_exclusive(self) -> bool:
        return self._backend.is_exclusive

    @property
    def is_shared(self) -> bool:
        return self._backend.is_shared

    def get(self, key: str) -> Any | None:
        return self._backend.get(key)

    def get_prefix(self, prefix: str) -> Mapping[str, Any]:
        return self._backend.get_prefix(prefix)

    def put(self, key: str, value: Any) -> None:
        self._backend.put(key, value)

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        self._backend.put_if_absent(entries)

    def remove(self, key: str) -> None:
        self._backend.remove(key)

    def claim(self, keys: Collection[str]) -> Mapping[str, Any]:
        return self._backend.claim(keys)

    def clear(self) -> None:
        own = [key for key in self._backend.get_prefix(self._node) if self._is_own(key)]
        if own:
            self._backend.put_many(dict.fromkeys(own))

    def _is_own(self, key: str) -> bool:
        if key == self._node:
            return True
        return key.startswith(f"{self._node}:") and not f"{key}:".startswith(self._longer)
