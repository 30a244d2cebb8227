"""Who sends a request to the API, and whether there were too many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from streamling.serve.access import Access, Principal, RateLimit
from streamling.serve.admin.guard import Guard, Rejected, error_body, unauthorized

#: requests of one token that are open at a time, such as those that follow a log
_OPEN_REQUESTS = 200


def guarded(inner: ASGIApp, access: Access, limit: RateLimit, hosts: Collection[str]) -> Guard:
    """Return ``inner`` behind the tokens and the limits of a server."""

    def authenticate(headers: Mapping[str, str]) -> Principal:
        principal = access.principal(headers.get("authorization"))
        if not limit.allows("" if principal is None else principal.name):
            raise Rejected(429, "too_many_requests", "too many requests", "wait, or raise serve.requests_per_minute")
        if principal is None:
            raise unauthorized("send the header 'Authorization: Bearer TOKEN'; the command line takes STREAMLING_TOKEN")
        return principal

    return Guard(_with_few_open(inner), authenticate, hosts=hosts)


def _with_few_open(inner: ASGIApp) -> ASGIApp:
    """Return ``inner`` for a limited number of requests of each token at a time: their connections are shared by
    all."""
    running: Counter[str] = Counter()

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        principal: Principal | None = scope.get("principal")
        name = "" if principal is None else principal.name
        if principal is not None and running[name] >= _OPEN_REQUESTS:
            sentence = f"'{name}' has {_OPEN_REQUESTS} open requests, which is the limit"
            body = error_body("too_many_requests", sentence, "end requests that follow logs or live rows")
            await JSONResponse(body, 429, {"Retry-After": "5"})(scope, receive, send)
            return
        running[name] += 1
        try:
            await inner(scope, receive, send)
        finally:
            running[name] -= 1

    return answer
