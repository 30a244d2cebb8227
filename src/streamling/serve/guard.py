"""Who sends a request to the API, and whether there were too many."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from starlette.types import ASGIApp

from streamling.admin.guard import Guard, Rejected, unauthorized
from streamling.serve.access import Access, Principal, RateLimit


def guarded(inner: ASGIApp, access: Access, limit: RateLimit, hosts: Collection[str]) -> Guard:
    """``inner`` behind the tokens and the rate limit of a server."""

    def authenticate(headers: Mapping[str, str]) -> Principal:
        principal = access.principal(headers.get("authorization"))
        if not limit.allows("" if principal is None else principal.name):
            raise Rejected(429, "too_many_requests", "too many requests", "wait, or raise serve.requests_per_minute")
        if principal is None:
            raise unauthorized("send the header 'Authorization: Bearer TOKEN'; the command line takes STREAMLING_TOKEN")
        return principal

    return Guard(inner, authenticate, hosts=hosts)
