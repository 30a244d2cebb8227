"""The HTTP API under `/api/v1`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Body, FastAPI, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, PlainTextResponse, StreamingResponse

from streamling import __version__
from streamling.redaction import add_secrets
from streamling.serve.api_access import Admin, GlobalAdmin, Operator, Viewer
from streamling.serve.api_errors import add_error_handlers, note_refused_settings
from streamling.serve.api_pipelines import pipeline_routes
from streamling.serve.console import mount_console
from streamling.serve.control import ControlPlane
from streamling.serve.errors import InvalidDefinition, Refused
from streamling.serve.model import NAME_RULES, PipelineBody, PipelineKey
from streamling.serve.observation import add_observation_routes
from streamling.serve.previews import MOST_ROWS, MOST_SECONDS, DefinitionPreviews, PreviewLimits
from streamling.serve.schemas import (
    AccessObject,
    AuditList,
    AuditObject,
    DefinitionBody,
    ErrorBody,
    SecretBody,
    SecretList,
    Verdict,
)
from streamling.serve.slow_calls import SlowCalls

PREFIX = "/api/v1"

SecretName = Annotated[str, Path(pattern="^[A-Za-z_][A-Za-z0-9_.-]{0,127}$")]


def create_api(
    control: ControlPlane,
    previews: DefinitionPreviews,
    unready_reason: Callable[[], str],
    is_stopping: Callable[[], bool],
    slow: SlowCalls,
) -> FastAPI:
    """Return the application; ``unready_reason`` answers `/readyz`, ``is_stopping`` ends requests that follow
    something."""
    api = FastAPI(
        title="Streamling",
        version=__version__,
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses={"default": {"model": ErrorBody, "description": "An error."}},
    )
    add_error_handlers(api)
    api.include_router(pipeline_routes(control, is_stopping, slow), prefix=PREFIX)
    api.include_router(_others(control, previews, slow), prefix=PREFIX)
    add_observation_routes(api, control, PREFIX)
    mount_console(api, "fleet", {what: rule._asdict() for what, rule in NAME_RULES.items()})

    @api.get("/healthz", include_in_schema=False)
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    @api.get("/readyz", include_in_schema=False)
    async def readyz() -> JSONResponse:
        reason = await run_in_threadpool(unready_reason)
        return JSONResponse({"status": reason or "ready"}, 503 if reason else 200)

    @api.get("/metrics", tags=["metrics"], response_class=PlainTextResponse)
    async def metrics(principal: Viewer) -> PlainTextResponse:
        """The metrics of all pipelines that the token sees, for Prometheus."""
        text = await slow.run(principal, partial(control.metrics, principal.sees))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    return api


def _others(control: ControlPlane, previews: DefinitionPreviews, slow: SlowCalls) -> APIRouter:
    router, audit = APIRouter(), control.catalogue.audit

    @router.post("/validate", tags=["pipelines"])
    async def validate(principal: Operator, body: Annotated[DefinitionBody, Body()], request: Request) -> Verdict:
        """Check a definition without creating a pipeline."""
        wanted = PipelineBody(definition=body.definition, config=body.config)
        try:
            await slow.run(principal, partial(control.check_definition, wanted))
        except InvalidDefinition as error:
            note_refused_settings(request, error)
            return Verdict(is_valid=False, problems=error.problems)
        return Verdict(is_valid=True, problems=[])

    @router.post("/preview", tags=["pipelines"], response_class=StreamingResponse)
    async def preview(
        principal: Operator,
        body: Annotated[DefinitionBody, Body()],
        duration_seconds: Annotated[float, Query(gt=0, le=MOST_SECONDS)] = 30.0,
        rows: Annotated[int, Query(ge=1, le=MOST_ROWS)] = 20,
    ) -> StreamingResponse:
        """Run a definition without its sinks, in a process of its own, and send rows of every node as server-sent
        events: `nodes` first, then rows, `error` if the pipeline has failed, and `end`."""
        limits = PreviewLimits(duration_seconds, rows)
        checked = await slow.run(principal, partial(previews.check, body, limits))
        events = await previews.open(principal, checked, limits)
        await slow.run(principal, partial(audit.record, "preview", principal.name, PipelineKey("", "")))
        return StreamingResponse(events, media_type="text/event-stream", headers={"x-accel-buffering": "no"})

    @router.get("/access", tags=["access"])
    def get_access(principal: Viewer) -> AccessObject:
        """Who the token of the request belongs to, and what it may do."""
        return AccessObject(name=principal.name, role=principal.role, namespaces=list(principal.namespaces))

    @router.get("/secrets", tags=["secrets"])
    def list_secrets(principal: GlobalAdmin) -> SecretList:
        """The names of the stored secrets; values are never returned."""
        return SecretList(items=sorted(control.secrets.names()))

    @router.put("/secrets/{name}", tags=["secrets"], status_code=204)
    async def put_secret(principal: GlobalAdmin, name: SecretName, body: SecretBody) -> None:
        """Store a secret. Pipelines use it from their next start on."""

        def put() -> None:
            add_secrets([body.value])
            control.secrets.set(name, body.value)
            audit.record("set secret", principal.name, PipelineKey("", name))

        await slow.run(principal, put)

    @router.delete("/secrets/{name}", tags=["secrets"], status_code=204)
    async def delete_secret(principal: GlobalAdmin, name: SecretName) -> None:
        """Delete a secret."""

        def delete() -> None:
            if not control.secrets.delete(name):
                raise Refused("not_found", f"there is no secret '{name}'")
            audit.record("delete secret", principal.name, PipelineKey("", name))

        await slow.run(principal, delete)

    @router.get("/audit", tags=["audit"])
    async def get_audit(principal: Admin, limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> AuditList:
        """Who has changed what, newest first."""
        namespaces = None if principal.sees_all else principal.namespaces
        entries = await slow.run(principal, partial(audit.newest, limit, namespaces))
        return AuditList(items=[AuditObject(**asdict(entry)) for entry in entries])

    return router
