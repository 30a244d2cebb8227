"""Refused requests in the audit log, limited in number, so that a client cannot fill it."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamling.errors import StreamlingError
from streamling.serve.access import Principal
from streamling.serve.audit import AuditLog
from streamling.serve.model import PipelineKey

log = logging.getLogger(__name__)

#: One entry in this time for each client and status; the others are counted.
_INTERVAL_SECONDS = 600.0
#: the sender of a wrong token
_UNKNOWN = "unknown"
_LONGEST_PATH = 200


@dataclass(frozen=True)
class _Entry:
    actor: str
    key: PipelineKey
    detail: str


@dataclass
class _Kind:
    recorded_at: float
    others: int = 0


class Refusals:
    """What was refused: a wrong token (401), a missing role or a foreign origin (403), the pipeline of a namespace that
    the client may not see (404)."""

    def __init__(self, audit: AuditLog, now: Callable[[], float] = time.monotonic) -> None:
        self._audit = audit
        self._now = now
        self._kinds: dict[tuple[str, int], _Kind] = {}
        self._entries: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="refused requests", daemon=True).start()

    def record(self, actor: str, status: int, key: PipelineKey, request: str) -> None:
        """Record a refused request, or count it. Called on one thread; never waits for the database."""
        now, kind = self._now(), self._kinds.get((actor, status))
        if kind is not None and now - kind.recorded_at < _INTERVAL_SECONDS:
            kind.others += 1
            return
        others = 0 if kind is None else kind.others
        self._kinds[actor, status] = _Kind(now)
        more = f", and {others} others since the last entry" if others else ""
        self._entries.put(_Entry(actor, key, f"{status} {request[:_LONGEST_PATH]}{more}"))

    def _write(self) -> None:
        while True:
            entry = self._entries.get()
            try:
                self._audit.record("refused", entry.actor, entry.key, entry.detail)
            except StreamlingError as error:
                log.warning("a refused request of '%s' is not in the audit log: %s", entry.actor, error)


def recording(inner: ASGIApp, refusals: Refusals) -> ASGIApp:
    """Return ``inner``, with its refusals in the audit log. Routes mark a namespace that is hidden from the client with
    ``hidden`` in the scope."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def observe(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_refusal(scope, message["status"]):
                principal: Principal | None = scope.get("principal")
                actor = _UNKNOWN if principal is None else principal.name
                names = scope.get("path_params", {})
                key = PipelineKey(scope.get("hidden") or names.get("namespace", ""), names.get("name", ""))
                refusals.record(actor, message["status"], key, f"{scope['method']} {scope['path']}")
            await send(message)

        await inner(scope, receive, observe)

    return answer


def _is_refusal(scope: Scope, status: int) -> bool:
    if status == 401:  # without any token, it was a browser that has not asked for it yet
        return any(name == b"authorization" for name, _ in scope["headers"])
    return status == 403 or (status == 404 and "hidden" in scope)
