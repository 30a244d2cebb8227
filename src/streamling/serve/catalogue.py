"""The catalogue: which pipelines should exist and what they should do.

Every change is one transaction, together with its entry in the audit log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, LiteralString

from streamling.engine.state.store import state_store
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.state_backend import Execute, SqlDatabase
from streamling.serve.audit import AuditLog
from streamling.serve.errors import Refused
from streamling.serve.model import (
    DesiredState,
    ManagedBy,
    PipelineBody,
    PipelineKey,
    PipelineRecord,
    StateOnDelete,
)

#: fields of a specification whose change replaces a running pipeline
_REPLACING = ("definition", "config", "size", "isolation")
#: the owner of the catalogue in locks of the state backend: one server at a time uses it
_OWNER: Final = "streamling.serve"
_TABLES: Final[Mapping[LiteralString, LiteralString]] = {
    "pipelines": "namespace TEXT, name TEXT, generation BIGINT NOT NULL, data TEXT NOT NULL, "
    "PRIMARY KEY (namespace, name)",
    "audit": "id {serial}, at TEXT NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, namespace TEXT NOT NULL, "
    "name TEXT NOT NULL, generation BIGINT, detail TEXT NOT NULL",
}


def open_database(config: AppConfig) -> SqlDatabase:
    """Return the tables of a catalogue, next to the states of the pipelines."""
    return state_store(config.model_copy(update={"application_id": _OWNER})).database("serve", _TABLES)


@dataclass(frozen=True)
class Actor:
    """Who changes the catalogue."""

    name: str
    managed_by: ManagedBy = "api"


class Catalogue:
    """The records, in memory and in the database. All methods may be called from any thread; those that read never
    wait for the database."""

    def __init__(self, database: SqlDatabase, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._now = now
        self.audit = AuditLog(database, now)
        #: held by changes
        self._lock = threading.Lock()
        self._records: Mapping[PipelineKey, PipelineRecord] = {}
        #: Since when the records may be old: a transaction has failed, it is unknown whether it was committed, and the
        #: database could not be asked. None: they are not.
        self.stale_since: datetime | None = now()
        #: called after each change, on the thread that made it
        self.on_change: Callable[[], None] = lambda: None
        self.refresh()

    @property
    def is_stale(self) -> bool:
        """Whether the records may be old."""
        return self.stale_since is not None

    def records(self) -> Mapping[PipelineKey, PipelineRecord]:
        """Return all records by key; the last known ones while the database is unavailable."""
        return self._records

    def get(self, key: PipelineKey) -> PipelineRecord:
        """Return the record of ``key``; raises if there is none."""
        return existing(self._records.get(key), key)

    def refresh(self) -> None:
        """Read the records if they may be old; raises if the database is unavailable."""
        if self.is_stale:
            with self._lock:
                self._refresh()

    # ── changes ─────────────────────────────────────────────────────────────────────────────────────────────

    def create(
        self, key: PipelineKey, wanted: PipelineBody, actor: Actor, problem: str | None = None
    ) -> PipelineRecord:
        """Add a pipeline; refused if there is one with this name."""

        def create(before: PipelineRecord | None) -> PipelineRecord:
            if before is not None:
                raise exists_error(before)
            return PipelineRecord.first(key, wanted, self._now(), actor.managed_by, problem)

        return self._change(key, "create", actor, create)

    def put(
        self,
        key: PipelineKey,
        wanted: PipelineBody,
        actor: Actor,
        *,
        etag: str | None = None,
        only_create: bool = False,
        problem: str | None = None,
    ) -> PipelineRecord:
        """Create or replace a pipeline. With ``etag``, only the version that has it; with ``only_create``, only if
        there is none."""

        def put(before: PipelineRecord | None) -> PipelineRecord:
            if only_create and before is not None:
                raise Refused(
                    "changed", f"the pipeline '{key}' already exists", "leave out If-None-Match to replace it"
                )
            check_etag(before, key, etag)
            if before is None:
                return PipelineRecord.first(key, wanted, self._now(), actor.managed_by, problem)
            check_changeable(before, actor.managed_by)
            return self._replaced(before, wanted, problem)

        return self._change(key, "put", actor, put)

    def set_desired(self, key: PipelineKey, desired: DesiredState, actor: Actor) -> PipelineRecord:
        """Pause or resume a pipeline."""
        action = "pause" if desired == "paused" else "resume"

        def change(before: PipelineRecord | None) -> PipelineRecord:
            found = changeable(before, key, actor.managed_by)
            return found if found.desired == desired else self._next(found, desired=desired)

        return self._change(key, action, actor, change)

    def restart(self, key: PipelineKey, actor: Actor) -> PipelineRecord:
        """Replace the running pipeline by a new run of the same version, also one that has failed or finished."""

        def change(before: PipelineRecord | None) -> PipelineRecord:
            found = existing(before, key)
            if found.deleting is not None:
                raise being_deleted_error(found)
            return self._next(found, revision=found.revision + 1)

        return self._change(key, "restart", actor, change)

    def delete(self, key: PipelineKey, state: StateOnDelete, actor: Actor, etag: str | None = None) -> PipelineRecord:
        """Request the deletion; `remove` follows when the pipeline has stopped."""

        def change(before: PipelineRecord | None) -> PipelineRecord:
            found = existing(before, key)
            check_etag(found, key, etag)
            check_owner(found, actor.managed_by)
            return found if found.deleting == state else self._next(found, deleting=state)

        return self._change(key, f"delete ({state} state)", actor, change)

    def remove(self, key: PipelineKey) -> None:
        """Forget a pipeline whose deletion was requested and that no longer runs."""
        with self._lock:
            self._refresh()
            record = self._records.get(key)
            if record is None or record.deleting is None:
                return
            with self._transaction() as execute:
                execute("DELETE FROM {pipelines} WHERE namespace = %s AND name = %s", key)
                self.audit.add(execute, "removed", "streamling", key, record.generation)
            self._records = {other: each for other, each in self._records.items() if other != key}
        self.on_change()

    # ── one change ──────────────────────────────────────────────────────────────────────────────────────────

    def _change(
        self,
        key: PipelineKey,
        action: str,
        actor: Actor,
        change: Callable[[PipelineRecord | None], PipelineRecord],
    ) -> PipelineRecord:
        with self._lock:
            self._refresh()
            before = self._records.get(key)
            after = change(before)
            if after == before:
                return after
            with self._transaction() as execute:
                self._store(execute, after)
                detail = ", ".join(_changed_fields(before, after))
                self.audit.add(execute, action, actor.name, key, after.generation, detail)
            self._records = {**self._records, key: after}
        self.on_change()
        return after

    @contextmanager
    def _transaction(self) -> Iterator[Execute]:
        """Provide a transaction; if it fails, read the records again, because it may have been committed."""
        try:
            with self._database.transaction() as execute:
                yield execute
        except BaseException:
            self.stale_since = self.stale_since or self._now()
            with suppress(StreamlingError):
                self._refresh()
            raise

    def _refresh(self) -> None:
        if not self.is_stale:
            return
        with self._database.reading() as execute:
            rows = execute("SELECT data FROM {pipelines} ORDER BY namespace, name", ())
        found = (PipelineRecord.model_validate_json(data) for (data,) in rows)
        self._records = {record.key: record for record in found}
        self.stale_since = None

    @staticmethod
    def _store(execute: Execute, record: PipelineRecord) -> None:
        execute(
            "INSERT INTO {pipelines} (namespace, name, generation, data) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (namespace, name) DO UPDATE SET generation = excluded.generation, data = excluded.data",
            (*record.key, record.generation, record.model_dump_json()),
        )

    # ── records ─────────────────────────────────────────────────────────────────────────────────────────────

    def _replaced(self, before: PipelineRecord, wanted: PipelineBody, problem: str | None) -> PipelineRecord:
        changed = wanted.model_dump() | {"problem": problem}
        if all(getattr(before, name) == value for name, value in changed.items()):
            return before
        replaces = any(getattr(before, name) != changed[name] for name in (*_REPLACING, "problem"))
        return self._next(before, **changed, revision=before.revision + replaces)

    def _next(self, record: PipelineRecord, **changes: Any) -> PipelineRecord:
        return record.model_copy(update={**changes, "generation": record.generation + 1, "updated_at": self._now()})


def _changed_fields(before: PipelineRecord | None, after: PipelineRecord) -> Iterable[str]:
    """Return the names of the fields that a client has changed."""
    names = (*_REPLACING, "desired", "deleting")
    return [name for name in names if before is not None and getattr(before, name) != getattr(after, name)]


# ── when a record may be changed ─────────────────────────────────────────────────────────────────────────────────


def existing(record: PipelineRecord | None, key: PipelineKey) -> PipelineRecord:
    """Return ``record``; raises if there is none."""
    if record is None:
        raise Refused("not_found", f"there is no pipeline '{key}'")
    return record


def changeable(record: PipelineRecord | None, key: PipelineKey, managed_by: ManagedBy) -> PipelineRecord:
    """Return ``record``; raises if there is none, or if it may not be changed now."""
    found = existing(record, key)
    check_changeable(found, managed_by)
    return found


def check_changeable(record: PipelineRecord, managed_by: ManagedBy) -> None:
    """Raise if ``record`` is being deleted, or belongs to another side than ``managed_by``."""
    if record.deleting is not None:
        raise being_deleted_error(record)
    check_owner(record, managed_by)


def check_owner(record: PipelineRecord, managed_by: ManagedBy) -> None:
    """Raise if the files of a folder and the API would change the same pipeline."""
    if record.managed_by != managed_by:
        where = "a file of the server's folder" if record.managed_by == "dir" else "the API"
        raise Refused(
            "managed", f"the pipeline '{record.key}' is managed by {where}", "change it there, or use another name"
        )


def check_etag(record: PipelineRecord | None, key: PipelineKey, etag: str | None) -> None:
    """Raise if a change is based on another version than the current one."""
    if etag is None or (record is not None and etag in ("*", record.etag)):
        return
    found = f"has been changed: its version is now {record.etag}" if record is not None else "does not exist"
    raise Refused("changed", f"the pipeline '{key}' {found}", "read it again and repeat the change on that version")


def exists_error(record: PipelineRecord) -> Refused:
    """Return the error for a name that is in use."""
    if record.deleting is not None:
        return being_deleted_error(record)
    return Refused("exists", f"the pipeline '{record.key}' already exists", "use PUT to replace it, or another name")


def being_deleted_error(record: PipelineRecord) -> Refused:
    """Return the error for a change of a pipeline that is being deleted."""
    return Refused("deleting", f"the pipeline '{record.key}' is being deleted", "wait until it has been removed")
