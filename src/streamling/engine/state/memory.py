"""State in memory, which is lost when the process ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, ClassVar, LiteralString

from streamling.plugins.state_backend import SqlDatabase, StateBackend, StateStore, encoded


class MemoryState(StateBackend):
    """Entries in a dictionary, as JSON text, so that callers cannot change stored values."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        self._lock = threading.Lock()

    def get(self, key: str) -> Any | None:
        with self._lock:
            text = self._entries.get(key)
        return None if text is None else json.loads(text)

    def get_prefix(self, prefix: str) -> dict[str, Any]:
        with self._lock:
            found = sorted((key, text) for key, text in self._entries.items() if key.startswith(prefix))
        return {key: json.loads(text) for key, text in found}

    def put_many(self, entries: Mapping[str, Any]) -> None:
        texts, removals = encoded(entries)
        with self._lock:
            self._entries.update(texts)
            for key in removals:
                self._entries.pop(key, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def close(self) -> None:
        """Do nothing: the entries stay readable."""


class MemoryStateStore(StateStore[None]):
    """State that ends with the run."""

    is_durable: ClassVar[bool] = False

    @property
    def location(self) -> str:
        return "in memory (not kept after the run)"

    def find(self) -> None:
        return None

    def open(self) -> MemoryState:
        return MemoryState()

    def database(self, prefix: str, tables: Mapping[LiteralString, LiteralString]) -> SqlDatabase:
        from streamling.engine.state.sqlite_database import SqliteDatabase

        return SqliteDatabase(None, self.application_id, prefix, tables)
