"""The HTTP API under `/api/v1`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, FastAPI, Header, Path, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from streamling import __version__
from streamling.console import mount_console
from streamling.output.redaction import add_secrets
from streamling.serve.access import Principal
from streamling.serve.api_errors import ApiError, add_error_handlers
from streamling.serve.catalogue import Actor
from streamling.serve.config import Role
from streamling.serve.control import ControlPlane
from streamling.serve.errors import Refused
from streamling.serve.lifecycle import State
from streamling.serve.model import PipelineKey, PipelineRecord, Specification, StateOnDelete
from streamling.serve.observation import observation_routes
from streamling.serve.paging import page_of
from streamling.serve.schemas import (
    AuditList,
    AuditObject,
    DefinitionBody,
    ErrorBody,
    NewPipeline,
    PipelineBody,
    PipelineList,
    PipelineObject,
    SecretBody,
    SecretList,
    Verdict,
)

PREFIX = "/api/v1"
#: how long a request for a checkpoint waits
_CHECKPOINT_SECONDS = 30.0
#: seconds between two looks for new log records
_FOLLOW_SECONDS = 0.25
#: a follower that has seen nothing for so long gets an empty line, which shows whether it is still there
_KEEP_ALIVE_SECONDS = 15.0

Etag = Annotated[str | None, Header(description="The version that the change is based on.")]


def create_api(control: ControlPlane, is_ready: Callable[[], bool], is_stopping: Callable[[], bool]) -> FastAPI:
    """The application; ``is_ready`` answers `/readyz`, ``is_stopping`` ends requests that follow something."""
    api = FastAPI(
        title="Streamling",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={"default": {"model": ErrorBody, "description": "An error."}},
    )
    add_error_handlers(api)
    api.include_router(_pipelines(control, is_stopping), prefix=PREFIX)
    api.include_router(_others(control), prefix=PREFIX)
    api.router.routes.append(observation_routes(control, PREFIX))
    mount_console(api, "fleet")

    @api.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @api.get("/readyz", include_in_schema=False)
    async def readyz() -> JSONResponse:
        ready = is_ready()
        return JSONResponse({"status": "ready" if ready else "starting or stopping"}, 200 if ready else 503)

    return api


# ── who asks ────────────────────────────────────────────────────────────────────────────────────────────────────


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


def _visible_key(request: Request, namespace: Annotated[str, Path()], name: Annotated[str, Path()]) -> PipelineKey:
    """The pipeline of the path; a namespace that is not the client's looks as if it did not exist."""
    principal: Principal = request.scope["principal"]
    key = PipelineKey(namespace, name)
    if not principal.sees(namespace):
        raise Refused("not_found", f"there is no pipeline '{key}'")
    return key


Key = Annotated[PipelineKey, Depends(_visible_key)]


# ── pipelines ───────────────────────────────────────────────────────────────────────────────────────────────────


def _pipelines(control: ControlPlane, is_stopping: Callable[[], bool]) -> APIRouter:
    router, catalogue = APIRouter(tags=["pipelines"]), control.catalogue
    one = "/pipelines/{namespace}/{name}"

    def answer(response: Response, record: PipelineRecord) -> PipelineObject:
        response.headers["ETag"] = record.etag
        return control.pipeline(record)

    @router.get("/pipelines")
    def list_pipelines(
        principal: Viewer,
        namespace: str | None = None,
        q: Annotated[str, Query(description="Part of the name.")] = "",
        state: State | None = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        cursor: str | None = None,
    ) -> PipelineList:
        """Pipelines, sorted by namespace and name."""
        found = [
            record
            for key, record in sorted(catalogue.records().items())
            if principal.sees(key.namespace)
            and namespace in (None, key.namespace)
            and q in key.name
            and state in (None, control.state(key))
        ]
        page, following = page_of(found, cursor, limit)
        return PipelineList(items=[control.summary(record) for record in page], next=following)

    @router.post("/pipelines", status_code=201)
    def create_pipeline(principal: Operator, body: NewPipeline, response: Response) -> PipelineObject:
        """Create a pipeline."""
        key = PipelineKey.checked(body.namespace, body.name)
        _require_namespace(principal, key)
        if key in catalogue.records():
            raise Refused("exists", f"the pipeline '{key}' already exists", "use PUT to replace it, or another name")
        control.check(key, body.specification())
        return answer(response, catalogue.create(key, body.specification(), Actor(principal.name)))

    @router.get(one)
    def get_pipeline(principal: Viewer, key: Key, response: Response) -> PipelineObject:
        """One pipeline."""
        return answer(response, catalogue.get(key))

    @router.put(one)
    def put_pipeline(
        principal: Operator,
        key: Key,
        body: PipelineBody,
        response: Response,
        if_match: Etag = None,
        if_none_match: Etag = None,
    ) -> PipelineObject:
        """Create or replace a pipeline: the version of `If-Match`, or with `If-None-Match: *` only a new one."""
        if if_match is None and if_none_match != "*":
            raise ApiError(
                428,
                "precondition_required",
                "a change needs the version it is based on",
                "send If-Match with the ETag of the version that you have read, or If-None-Match: * to create",
            )
        key, wanted = PipelineKey.checked(*key), body.specification()
        control.check(key, wanted)
        exists = key in catalogue.records()
        record = catalogue.put(key, wanted, Actor(principal.name), etag=if_match, only_create=if_match is None)
        response.status_code = 200 if exists else 201
        return answer(response, record)

    @router.delete(one, status_code=202)
    def delete_pipeline(
        principal: Operator, key: Key, response: Response, state: StateOnDelete = "keep", if_match: Etag = None
    ) -> PipelineObject:
        """Drain a pipeline and remove it, with `state=delete` also its stored positions."""
        return answer(response, catalogue.delete(key, state, Actor(principal.name), if_match))

    @router.post(f"{one}/{{action}}", status_code=202)
    def act(
        principal: Operator,
        key: Key,
        action: Literal["pause", "resume", "restart", "checkpoint"],
        response: Response,
        timeout: Annotated[float, Query(gt=0, le=300)] = _CHECKPOINT_SECONDS,
    ) -> PipelineObject:
        """Pause, resume or restart a pipeline, or store its position now."""
        actor = Actor(principal.name)
        match action:
            case "pause":
                record = catalogue.set_desired(key, "paused", actor)
            case "resume":
                record = catalogue.set_desired(key, "running", actor)
            case "restart":
                record = catalogue.restart(key, actor)
            case "checkpoint":
                record = catalogue.get(key)
                control.checkpoint(key, timeout)
        return answer(response, record)

    @router.get(f"{one}/ready")
    def get_ready(principal: Viewer, key: Key) -> JSONResponse:
        """Whether all nodes of a pipeline are connected."""
        ready = control.is_ready(catalogue.get(key).key)
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    @router.get(f"{one}/logs", response_class=StreamingResponse)
    def get_logs(
        principal: Viewer, key: Key, follow: bool = False, tail: Annotated[int, Query(ge=0, le=500)] = 100
    ) -> StreamingResponse:
        """The last log records of a pipeline, one JSON object per line."""
        catalogue.get(key)
        return StreamingResponse(_log_lines(control, key, tail, follow, is_stopping), media_type="application/x-ndjson")

    return router


def _require_namespace(principal: Principal, key: PipelineKey) -> None:
    if not principal.sees(key.namespace):
        raise Refused("not_found", f"there is no namespace '{key.namespace}'")


async def _log_lines(
    control: ControlPlane, key: PipelineKey, tail: int, follow: bool, is_stopping: Callable[[], bool]
) -> AsyncIterator[str]:
    pipeline, last = str(key), control.logs.last_number(str(key))
    records, quiet = [record for record in control.logs.tail(pipeline, tail) if record.number <= last], 0.0
    is_over = not follow
    while True:
        for record in records:
            last, quiet = record.number, 0.0
            yield json.dumps(record.as_object(), ensure_ascii=False) + "\n"
        if is_over:
            return
        await asyncio.sleep(_FOLLOW_SECONDS)
        quiet += _FOLLOW_SECONDS
        if quiet >= _KEEP_ALIVE_SECONDS:
            quiet = 0.0
            yield "\n"
        # before the records are read: nothing is logged after the pipeline has been removed
        is_over = is_stopping() or key not in control.catalogue.records()
        records = control.logs.after(pipeline, last)


# ── everything else ─────────────────────────────────────────────────────────────────────────────────────────────

SecretName = Annotated[str, Path(pattern="^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")]


def _others(control: ControlPlane) -> APIRouter:
    router = APIRouter()

    @router.post("/validate", tags=["pipelines"])
    def validate(principal: Operator, body: Annotated[DefinitionBody, Body()]) -> Verdict:
        """Check a definition without creating a pipeline."""
        problems = control.problems(Specification(definition=body.definition, config=body.config))
        return Verdict(is_valid=not problems, problems=problems)

    @router.get("/secrets", tags=["secrets"])
    def list_secrets(principal: Admin) -> SecretList:
        """The names of the stored secrets; values are never returned."""
        return SecretList(items=sorted(control.secrets.names()))

    @router.put("/secrets/{name}", tags=["secrets"], status_code=204)
    def put_secret(principal: Admin, name: SecretName, body: SecretBody) -> None:
        """Store a secret. Pipelines use it from their next start on."""
        add_secrets([body.value])
        control.secrets.set(name, body.value)
        control.catalogue.log("set secret", Actor(principal.name), name)

    @router.delete("/secrets/{name}", tags=["secrets"], status_code=204)
    def delete_secret(principal: Admin, name: SecretName) -> None:
        """Delete a secret."""
        if not control.secrets.delete(name):
            raise Refused("not_found", f"there is no secret '{name}'")
        control.catalogue.log("delete secret", Actor(principal.name), name)

    @router.get("/audit", tags=["audit"])
    def get_audit(principal: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> AuditList:
        """Who has changed what, newest first."""
        entries = control.catalogue.audit(limit)
        visible = (entry for entry in entries if not entry.namespace or principal.sees(entry.namespace))
        return AuditList(items=[AuditObject(**asdict(entry)) for entry in visible])

    return router
