"""The audit log: who changed what, and when. Values are not recorded: they may be long, or secret."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from typing import LiteralString

from streamling.plugins.state_backend import Execute, SqlDatabase
from streamling.serve.model import PipelineKey

#: entries that are kept
_ENTRIES = 100_000


@dataclass(frozen=True)
class AuditEntry:
    at: str
    actor: str
    action: str
    #: empty if the change does not concern a pipeline
    namespace: str
    name: str
    generation: int | None
    detail: str


class AuditLog:
    """The entries, in the database of the catalogue."""

    def __init__(self, database: SqlDatabase, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def newest(self, limit: int, namespaces: Collection[str] | None = None) -> list[AuditEntry]:
        """Return the newest entries, newest first; with ``namespaces``, only those about pipelines in one of them."""
        condition: LiteralString = ""
        if namespaces is not None:
            condition = f"WHERE namespace IN ({', '.join(['%s'] * len(namespaces)) or 'NULL'})"
        with self._database.reading() as execute:
            rows = execute(
                "SELECT at, actor, action, namespace, name, generation, detail FROM {audit} "
                + condition
                + " ORDER BY id DESC LIMIT %s",
                (*(namespaces or ()), limit),
            )
        return [AuditEntry(*row) for row in rows]

    def record(self, action: str, actor: str, key: PipelineKey, detail: str = "") -> None:
        """Record something that does not change the catalogue. The key of a secret has no namespace."""
        with self._database.transaction() as execute:
            self.add(execute, action, actor, key, detail=detail)

    def add(
        self,
        execute: Execute,
        action: str,
        actor: str,
        key: PipelineKey,
        generation: int | None = None,
        detail: str = "",
    ) -> None:
        """Add an entry in the transaction of the change itself."""
        execute(
            "INSERT INTO {audit} (at, actor, action, namespace, name, generation, detail) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s)",
            (self._now().isoformat(), actor, action, *key, generation, detail),
        )
        execute("DELETE FROM {audit} WHERE id <= (SELECT max(id) FROM {audit}) - %s", (_ENTRIES,))
