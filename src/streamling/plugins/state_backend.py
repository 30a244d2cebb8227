"""The contract of a state backend: a small durable map from strings to JSON, one namespace per application.

A backend is declared in `Builtin.state_backends` and `Builtin.state_settings`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, ClassVar, Generic, LiteralString, Protocol, Self, TypeVar

from streamling.errors import StreamlingError
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.shared import SharedResources

SettingsT = TypeVar("SettingsT")

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class FencedError(StreamlingError):
    """Nothing was stored: another instance has claimed ``keys`` since this one did."""

    def __init__(self, keys: Collection[str]) -> None:
        super().__init__(f"the state under {', '.join(sorted(keys))} now belongs to another instance of this pipeline")
        self.keys = frozenset(keys)


class StalePositionError(StreamlingError):
    """Nothing was stored: a stored offset is ahead of the new one."""

    def __init__(self, key: str, stored: int, offset: int) -> None:
        super().__init__(
            f"the stored position of '{key}' (offset {stored}) is ahead of this process (offset {offset}), which would "
            "set it back: another process has used the state",
            internal=False,
            remedy="run one process per state, or several instances with the Postgres backend; after a restart the "
            f"pipeline continues from offset {stored}",
        )


class DamagedStateError(StreamlingError):
    """The files of the state are damaged, or something else."""


class StateBackend(ABC):
    """Entries of one application. Every method may be called from any thread.

    Values are JSON values. A write is durable when the call returns. Failures are `StreamlingError`s; ``retriable``
    says whether a retry may help.
    """

    #: whether instances of a pipeline on several machines see the same entries
    is_shared: ClassVar[bool] = False

    @property
    def is_exclusive(self) -> bool:
        """Whether no other process writes these entries until `close`."""
        return not self.is_shared

    @abstractmethod
    def get(self, key: str) -> Any | None:
        """Return the value of ``key``; None if there is none."""

    @abstractmethod
    def get_prefix(self, prefix: str) -> dict[str, Any]:
        """Return all entries whose key starts with ``prefix``, in the order of their keys."""

    @abstractmethod
    def put_many(self, entries: Mapping[str, Any]) -> None:
        """Store all entries or none of them; a value of None removes the key. Raises `FencedError` if another instance
        has claimed one of the keys after this one."""

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        """Store the entries of a checkpoint like `put_many`, but never move an offset backwards: then nothing is stored
        and `StalePositionError` is raised."""
        check_not_older({key: self.get(key) for key in offsets_in(entries)}, entries)
        self.put_many(entries)

    @abstractmethod
    def clear(self) -> None:
        """Remove everything in this namespace."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections. May be called twice."""

    def claim(self, keys: Collection[str]) -> dict[str, Any]:
        """Become the owner of ``keys`` and return their entries: from now on, other instances that claimed them before
        cannot write them. If nothing is shared, there are no other owners."""
        return {key: value for key in sorted(keys) if (value := self.get(key)) is not None}

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        """Store those of ``entries`` whose keys do not exist yet."""
        self.put_many({key: value for key, value in entries.items() if self.get(key) is None})

    def put(self, key: str, value: Any) -> None:
        """Store one entry; None removes it."""
        self.put_many({key: value})

    def remove(self, key: str) -> None:
        """Remove ``key``, if it exists."""
        self.put_many({key: None})

    def items(self) -> dict[str, Any]:
        """Return everything in this namespace, in the order of the keys."""
        return self.get_prefix("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class StateStore(ABC, Generic[SettingsT]):
    """The place of one application's state: finds, opens and locks it. Creating one contacts nothing."""

    #: whether the state outlives the process
    is_durable: ClassVar[bool] = True

    def __init__(
        self, application_id: str, settings: SettingsT, *, shutdown_budget: float, shared: SharedResources
    ) -> None:
        """``settings`` is the block of ``state_backend`` for this type, None if it has none."""
        self.application_id = application_id
        self.settings = settings
        self.shutdown_budget = shutdown_budget
        self.shared = shared

    @property
    @abstractmethod
    def location(self) -> str:
        """The place, for people and without secrets."""

    @abstractmethod
    def find(self) -> StateBackend | None:
        """Open the state if it exists; create nothing."""

    @abstractmethod
    def open(self) -> StateBackend:
        """Open the state; create it if it does not exist."""

    def locked(self) -> AbstractContextManager[None]:
        """Lock the state against all other processes while the block runs."""
        return nullcontext()

    @contextmanager
    def owned(self, *, exclusive: bool) -> Iterator[StateBackend]:
        """Open and lock the state while the block runs: against all other processes if ``exclusive``, otherwise
        against those that lock it exclusively. A state that processes cannot share is always locked exclusively."""
        with self.locked(), self.open() as state:
            yield state

    def connection(self) -> ConnectionCheck | None:
        """Return how to check that the state can be used; None if nothing can fail."""
        return None

    def files(self) -> Sequence[Path]:
        """Return the existing files of the state, which may be moved aside when they are damaged; the main one
        first."""
        return ()

    @abstractmethod
    def database(self, prefix: str, tables: Mapping[LiteralString, LiteralString]) -> SqlDatabase:
        """Lock the state exclusively and open the database that contains it, with these ``tables``: column definitions
        by name, to which ``prefix`` is added. ``{serial}`` stands for the type of a generated primary key. Tables that
        do not exist are created."""

    def describe_entries(self) -> str | None:
        """Return the number of entries, for people; None if the state does not exist."""
        if (state := self.find()) is None:
            return None
        with state:
            count = len(state.items())
        return "1 entry" if count == 1 else f"{count} entries"


#: runs a statement and returns its rows: ``%s`` stands for a value, ``{name}`` for a table
Execute = Callable[[LiteralString, Sequence[Any]], list[tuple[Any, ...]]]

#: writes the one row of the table ``check``, to see whether that is possible
CHECK_TABLE: Mapping[LiteralString, LiteralString] = {"check": "id INTEGER PRIMARY KEY, at TEXT NOT NULL"}
CHECK_STATEMENT: LiteralString = (
    "INSERT INTO {check} (id, at) VALUES (1, %s) ON CONFLICT (id) DO UPDATE SET at = excluded.at"
)


class SqlDatabase(Protocol):
    """A few tables next to a state."""

    def transaction(self) -> AbstractContextManager[Execute]:
        """Return a transaction that is durable when the block has ended; rolled back if the block raises."""

    def reading(self) -> AbstractContextManager[Execute]:
        """Return a transaction that only reads."""

    def check_writable(self) -> None:
        """Raise if nothing can be stored now."""

    def close(self) -> None: ...


def offsets_in(entries: Mapping[str, Any]) -> list[str]:
    """Return keys of the entries that are offsets of a topic."""
    return [key for key, value in entries.items() if isinstance(value, dict) and isinstance(value.get("offset"), int)]


def check_not_older(stored: Mapping[str, Any], entries: Mapping[str, Any]) -> None:
    """Raise if an offset of ``entries`` is behind the one in ``stored``. A topic that was recreated starts again."""
    for key in offsets_in(stored):
        before, after = stored[key], entries[key]
        if before.get("topic_id") in (None, after.get("topic_id")) and after["offset"] < before["offset"]:
            raise StalePositionError(key, before["offset"], after["offset"])


def encoded(entries: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Return ``entries`` as JSON texts by key, and the keys to remove."""
    texts = {key: _json(key, value) for key, value in entries.items() if value is not None}
    return texts, [key for key, value in entries.items() if value is None]


def _json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StreamlingError(f"the state under {key!r} cannot be written as JSON: {error}", cause=error) from error


def checked_identifier(name: str, setting: str) -> str:
    """Return ``name`` if it is valid in a statement as the name of a table or schema."""
    if not _IDENTIFIER.fullmatch(name):
        raise StreamlingError.user(f"{setting} is {name!r}, expected letters, digits and underscores, no digit first")
    return name
