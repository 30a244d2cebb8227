"""The contract of a state backend: a small durable map from strings to JSON, one namespace per application."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

from streamling.errors import StreamlingError

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
        """The value of ``key``; None if there is none."""

    @abstractmethod
    def get_prefix(self, prefix: str) -> dict[str, Any]:
        """All entries whose key starts with ``prefix``, in the order of their keys."""

    @abstractmethod
    def put_many(self, entries: Mapping[str, Any]) -> None:
        """Store all entries or none of them; a value of None removes the key. Raises `FencedError` if another instance
        has claimed one of the keys after this one."""

    def put_positions(self, entries: Mapping[str, Any]) -> None:
        """Store the entries of a checkpoint like `put_many`, but never move an offset backwards: then nothing is stored
        and `StalePositionError` is raised."""
        check_not_older({key: self.get(key) for key in offsets_in(entries)}, entries)
        self.put_many(entries)

    def lock(self, *, exclusive: bool) -> None:  # noqa: B027 - most backends have nothing to do
        """Lock the entries until `close`: against all other processes if ``exclusive``, otherwise against those that
        lock them exclusively. Backends whose entries cannot be shared between processes do nothing."""

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
        """Everything in this namespace, in the order of the keys."""
        return self.get_prefix("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def offsets_in(entries: Mapping[str, Any]) -> list[str]:
    """Keys of the entries that are offsets of a topic."""
    return [key for key, value in entries.items() if isinstance(value, dict) and isinstance(value.get("offset"), int)]


def check_not_older(stored: Mapping[str, Any], entries: Mapping[str, Any]) -> None:
    """Raise if an offset of ``entries`` is behind the one in ``stored``. A topic that was recreated starts again."""
    for key in offsets_in(stored):
        before, after = stored[key], entries[key]
        if before.get("topic_id") in (None, after.get("topic_id")) and after["offset"] < before["offset"]:
            raise StalePositionError(key, before["offset"], after["offset"])


def encoded(entries: Mapping[str, Any]) -> tuple[dict[str, str], list[str]]:
    """``entries`` as JSON texts by key, and the keys to remove."""
    texts = {key: _json(key, value) for key, value in entries.items() if value is not None}
    return texts, [key for key, value in entries.items() if value is None]


def _json(key: str, value: Any) -> str:
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StreamlingError(f"the state under {key!r} cannot be written as JSON: {error}", cause=error) from error


def checked_identifier(name: str, setting: str) -> str:
    """``name`` if it is valid in a statement as the name of a table or schema."""
    if not _IDENTIFIER.fullmatch(name):
        raise StreamlingError.user(f"{setting} is {name!r}, expected letters, digits and underscores, no digit first")
    return name
