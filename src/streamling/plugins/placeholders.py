"""Stand-ins for what an operator does not have where it runs: no metrics, no state, no end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NoReturn

from streamling.errors import StreamlingError


class NoopMetrics:
    """Takes every measurement and keeps none."""

    def count(self, name: str, value: int = 1, tags: Mapping[str, str] | None = None) -> None:
        pass

    def latency(self, name: str, seconds: float, tags: Mapping[str, str] | None = None) -> None:
        pass

    def gauge(self, name: str, value: float, tags: Mapping[str, str] | None = None) -> None:
        pass

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        pass


class UnavailableState:
    """Refuses every access with ``reason``."""

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
    """Refuses every access with ``reason``: the dynamic tables belong to the driver's process."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def __getitem__(self, name: str) -> Any:
        raise StreamlingError(self._reason)

    def __iter__(self) -> Iterator[str]:
        raise StreamlingError(self._reason)

    def __len__(self) -> int:
        raise StreamlingError(self._reason)
