"""The contract of a state backend: a small durable map from text to JSON, one namespace per application."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Self

from streamling.errors import StreamlingError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class TakenOverError(StreamlingError):
    """Nothing was stored: another instance has claimed ``keys`` since this one did."""

    def __init__(self, keys: Collection[str]) -> None:
        super().__init__(f"the state under {', '.join(sorted(keys))} belongs to another instance of this pipeline now")
        self.keys = frozenset(keys)


class StateBackend(ABC):
    """Entries of one application. Every method may be called from any thread.

    Values are whatever JSON can express. A write has happened, durably, when the call returns. Failures are
    `StreamlingError`s; ``retriable`` says whether trying again may help.
    """

    #: whether instances of a pipeline on several machines see the same entries
    shared: ClassVar[bool] = False

    @abstractmethod
    def get(self, key: str) -> Any | None:
        """The value under ``key``, None when there is none."""

    @abstractmethod
    def get_prefix(self, prefix: str) -> dict[str, Any]:
        """All entries whose key starts with ``prefix``, in the order of their keys."""

    @abstractmethod
    def put_many(self, entries: Mapping[str, Any]) -> None:
        """Store all entries or none of them; a value of None removes the key. Raises `TakenOverError` when another
        instance has claimed one of the keys after this one claimed it."""

    @abstractmethod
    def clear(self) -> None:
        """Forget everything in this namespace."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections. May be called twice."""

    def claim(self, keys: Collection[str]) -> dict[str, Any]:
        """Become the owner of ``keys`` and get their entries: from now on other instances that claimed them before
        cannot write them. Where nothing is shared, everything is ours anyway."""
        return {key: value for key in sorted(keys) if (value := self.get(key)) is not None}

    def put_new(self, entries: Mapping[str, Any]) -> None:
        """Store those of ``entries`` whose keys are not there yet."""
        self.put_many({key: value for key, value in entries.items() if self.get(key) is None})

    def put(self, key: str, value: Any) -> None:
        """Store one entry; None removes it."""
        self.put_many({key: value})

    def remove(self, key: str) -> None:
        """Forget ``key``, if it is there."""
        self.put_many({key: None})

    def items(self) -> dict[str, Any]:
        """Everything in this namespace, in the order of the keys."""
        return self.get_prefix("")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


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
    """``name`` if it may stand in a statement as the name of a table or schema."""
    if not _IDENTIFIER.fullmatch(name):
        raise StreamlingError.user(f"{setting} is {name!r}, expected letters, digits and underscores, no digit first")
    return name
