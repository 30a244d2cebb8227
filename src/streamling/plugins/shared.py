"""Resources that the operators of one pipeline share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> None: ...


ThingT = TypeVar("ThingT", bound=Closable)


class SharedResources:
    """Resources such as a client with its connections: created by the first operator that acquires it, closed when the
    last one has released it. Methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._things: dict[type[Any], tuple[Any, int]] = {}

    def provide(self, thing: Closable) -> None:
        """Make ``thing`` the one of its class. Whoever provides it closes it."""
        self._things[type(thing)] = thing, 1

    def acquire(self, kind: type[ThingT], make: Callable[[], ThingT]) -> ThingT:
        """The pipeline's ``kind``; call `release` once for each call."""
        with self._lock:
            thing, users = self._things.get(kind) or (make(), 0)
            self._things[kind] = thing, users + 1
            taken: ThingT = thing
            return taken

    def release(self, kind: type[Closable]) -> None:
        with self._lock:
            thing, users = self._things.pop(kind)
            if users > 1:
                self._things[kind] = thing, users - 1
            else:
                thing.close()

    def __reduce__(self) -> tuple[type[SharedResources], tuple[()]]:
        """Nothing is shared with another process."""
        return SharedResources, ()
