"""Who sends a request, and which pipeline it names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Request
from starlette.requests import HTTPConnection

from streamling.serve.access import Principal
from streamling.serve.api_errors import ApiError
from streamling.serve.config import Role
from streamling.serve.errors import Refused
from streamling.serve.model import PipelineKey


def _require(role: Role) -> Callable[[Request], Principal]:
    def check(request: Request) -> Principal:
        principal: Principal = request.scope["principal"]
        if not principal.may(role):
            raise ApiError(403, "forbidden", f"'{principal.name}' has the role {principal.role}, this needs {role}")
        return principal

    return check


Viewer = Annotated[Principal, Depends(_require("viewer"))]
Operator = Annotated[Principal, Depends(_require("operator"))]
Admin = Annotated[Principal, Depends(_require("admin"))]


def _check_global(principal: Admin) -> Principal:
    if not principal.sees_all:
        raise ApiError(
            403,
            "forbidden",
            f"'{principal.name}' is limited to namespaces, and secrets belong to all of them",
            "use an admin token without serve.tokens.*.namespaces",
        )
    return principal


GlobalAdmin = Annotated[Principal, Depends(_check_global)]


def _visible_key(request: Request, namespace: Annotated[str, Path()], name: Annotated[str, Path()]) -> PipelineKey:
    """Return the pipeline of the path; a namespace that is not the client's looks as if it did not exist."""
    key = PipelineKey(namespace, name)
    check_namespace(request, key, f"there is no pipeline '{key}'")
    return key


def check_namespace(request: HTTPConnection, key: PipelineKey, sentence: str) -> None:
    """Refuse the request with ``sentence`` if the namespace is not one of the client's."""
    principal: Principal = request.scope["principal"]
    request.scope["pipeline"] = key  # for `refusals.py`
    if not principal.sees(key.namespace):
        request.scope["hidden"] = True
        raise Refused("not_found", sentence)


Key = Annotated[PipelineKey, Depends(_visible_key)]
