"""Resources that operators share: those of one pipeline, or those of all pipelines in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


ThingT = TypeVar("ThingT", bound=Closable)


@dataclass
class _Entry:
    thing: Any = None
    users: int = 0
    #: held while the thing is made: other things can be acquired meanwhile
    making: threading.Lock = field(default_factory=threading.Lock)


class SharedResources:
    """Resources such as a client with its connections: created by the first user that acquires it, closed when the last
    one has released it. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[tuple[Hashable, ...], _Entry] = {}

    def provide(self, thing: Closable) -> None:
        """Make ``thing`` the one of its class. Whoever provides it closes it."""
        self._entries[(type(thing),)] = _Entry(thing, 1)

    def acquire(self, kind: type[ThingT], make: Callable[[], ThingT], *settings: Hashable) -> ThingT:
        """Return the ``kind`` with these settings; call `release` once for each call."""
        key = (kind, *settings)
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
            entry.users += 1
        try:
            with entry.making:
                if entry.thing is None:
                    entry.thing = make()
                taken: ThingT = entry.thing
                return taken
        except BaseException:
            self._leave(key)
            raise

    def release(self, thing: Closable) -> None:
        """Close ``thing`` if it has no other user."""
        with self._lock:
            key = next(key for key, entry in self._entries.items() if entry.thing is thing)
        if self._leave(key):
            thing.close()

    def _leave(self, key: tuple[Hashable, ...]) -> bool:
        """Return whether this was the last user."""
        with self._lock:
            entry = self._entries[key]
            entry.users -= 1
            if not entry.users:
                del self._entries[key]
            return not entry.users

    def __reduce__(self) -> tuple[type[SharedResources], tuple[()]]:
        """Pickle without resources: nothing is shared with another process."""
        return SharedResources, ()
