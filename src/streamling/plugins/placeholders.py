"""Placeholders for what an operator does not have on an executor: metrics, state, dynamic tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from streamling.errors import StreamlingError


class NoopMetrics:
    """Discards all measurements."""

    def count(self, name: str, value: int = 1, tags: Mapping[str, str] | None = None) -> None:
        pass

    def latency(self, name: str, seconds: float, tags: Mapping[str, str] | None = None) -> None:
        pass

    def gauge(self, name: str, value: float, tags: Mapping[str, str] | None = None) -> None:
        pass

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        pass


class UnavailableState:
    """Raises an error with ``reason`` on every access."""

    is_exclusive = False
    is_shared = False

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def get(self, key: str) -> Any:
        self._refuse()

    def get_prefix(self, prefix: str) -> Mapping[str, Any]:
        self._refuse()

    def put(self, key: str, value: Any) -> None:
        self._refuse()

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        self._refuse()

    def remove(self, key: str) -> None:
        self._refuse()

    def clear(self) -> None:
        self._refuse()

    def claim(self, keys: Collection[str]) -> Mapping[str, Any]:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StreamlingError(self._reason)


class UnavailableTables(Mapping[str, Any]):
    """Raises an error with ``reason`` on every access: the dynamic tables are in the driver's process."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getitem__(self, name: str) -> Any:
        raise StreamlingError(self._reason)

    def __iter__(self) -> Iterator[str]:
        raise StreamlingError(self._reason)

    def __len__(self) -> int:
        raise StreamlingError(self._reason)
