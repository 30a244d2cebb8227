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

#: One entry in this time for each client, status and namespace; the others are counted.
_INTERVAL_SECONDS = 600.0
#: the sender of a wrong token
_UNKNOWN = "unknown"
_LONGEST_TEXT = 200


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
    the client may not see (404), a setting of the server in the `config` of a pipeline (422)."""

    def __init__(
        self, audit: AuditLog, exists: Callable[[str], bool], now: Callable[[], float] = time.monotonic
    ) -> None:
        """``exists`` says whether there is a namespace: all that a client has made up are one."""
        self._audit = audit
        self._exists = exists
        self._now = now
        self._kinds: dict[tuple[str, int, str], _Kind] = {}
        self._entries: queue.SimpleQueue[_Entry] = queue.SimpleQueue()
        threading.Thread(target=self._write, name="refused requests", daemon=True).start()

    def record(self, actor: str, status: int, key: PipelineKey, request: str) -> None:
        """Record a refused request, or count it. Called on one thread; never waits for the database."""
        of = actor, status, key.namespace if self._exists(key.namespace) else ""
        now, kind = self._now(), self._kinds.get(of)
        if kind is not None and now - kind.recorded_at < _INTERVAL_SECONDS:
            kind.others += 1
            return
        others = 0 if kind is None else kind.others
        self._kinds[of] = _Kind(now)
        more = f", and {others} others since the last entry" if others else ""
        short = PipelineKey(*(name[:_LONGEST_TEXT] for name in key))
        self._entries.put(_Entry(actor, short, f"{status} {request[:_LONGEST_TEXT]}{more}"))

    def _write(self) -> None:
        while True:
            entry = self._entries.get()
            try:
                self._audit.record("refused", entry.actor, entry.key, entry.detail)
            except StreamlingError as error:
                log.warning("a refused request of '%s' is not in the audit log: %s", entry.actor, error)


def recording(inner: ASGIApp, refusals: Refusals) -> ASGIApp:
    """Return ``inner``, with its refusals in the audit log. In the scope, routes leave the ``pipeline`` that a request
    names, whether it is ``hidden`` from the client, and the ``refused_settings`` of a definition."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def observe(message: Message) -> None:
            if message["type"] == "http.response.start":
                settings = scope.get("refused_settings", ())
                status = 422 if settings else message["status"]  # a validation succeeds with the result "invalid"
                if settings or _is_refusal(scope, status):
                    principal: Principal | None = scope.get("principal")
                    actor = _UNKNOWN if principal is None else principal.name
                    names = f", which sets {', '.join(settings)}" if settings else ""
                    refusals.record(actor, status, _key(scope), f"{scope['method']} {scope['path']}{names}")
            await send(message)

        await inner(scope, receive, observe)

    return answer


def _is_refusal(scope: Scope, status: int) -> bool:
    if status == 401:  # without any token, it was a browser that has not asked for it yet
        return any(name == b"authorization" for name, _ in scope["headers"])
    return status == 403 or (status == 404 and "hidden" in scope)


def _key(scope: Scope) -> PipelineKey:
    """Return the pipeline that a request names. A definition without a name concerns the namespace of its author, if
    that is the only one: its admin sees the entry."""
    if (key := scope.get("pipeline")) is not None:
        return PipelineKey(*key)
    principal: Principal | None = scope.get("principal")
    if "refused_settings" in scope and principal is not None and not principal.sees_all:
        return PipelineKey(principal.namespaces[0] if len(principal.namespaces) == 1 else "", "")
    names = scope.get("path_params", {})
    return PipelineKey(names.get("namespace", ""), names.get("name", ""))
