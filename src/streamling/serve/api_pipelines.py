"""The paths below `/pipelines`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from streamling.errors import StreamlingError
from streamling.serve.api_access import Key, Operator, Viewer, check_namespace
from streamling.serve.api_errors import ApiError
from streamling.serve.catalogue import Actor
from streamling.serve.control import ControlPlane
from streamling.serve.errors import Refused
from streamling.serve.lifecycle import State
from streamling.serve.model import PipelineBody, PipelineKey, PipelineRecord, StateOnDelete
from streamling.serve.schemas import NewPipeline, PipelineList, PipelineObject
from streamling.serve.slow_calls import SlowCalls

#: how long a request for a checkpoint waits
_CHECKPOINT_SECONDS = 30.0
#: seconds between two looks for new log records
_FOLLOW_SECONDS = 0.25
#: a follower that has seen nothing for so long gets an empty line, which shows whether it is still there
_KEEP_ALIVE_SECONDS = 15.0

Etag = Annotated[str | None, Header(description="The version that the change is based on.")]


def pipeline_routes(control: ControlPlane, is_stopping: Callable[[], bool], slow: SlowCalls) -> APIRouter:
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
    async def create_pipeline(
        principal: Operator, body: NewPipeline, request: Request, response: Response
    ) -> PipelineObject:
        """Create a pipeline."""
        key = PipelineKey.checked(body.namespace, body.name)
        check_namespace(request, key, f"there is no namespace '{key.namespace}'")

        def create() -> PipelineObject:
            if key in catalogue.records():
                raise Refused(
                    "exists", f"the pipeline '{key}' already exists", "use PUT to replace it, or another name"
                )
            control.check(key, body, starts=True)
            return answer(response, catalogue.create(key, body, Actor(principal.name)))

        return await slow.run(principal, create)

    @router.get(one)
    def get_pipeline(principal: Viewer, key: Key, response: Response) -> PipelineObject:
        """One pipeline."""
        return answer(response, catalogue.get(key))

    @router.put(one)
    async def put_pipeline(
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
        key = PipelineKey.checked(*key)

        def put() -> PipelineObject:
            control.check(key, body, starts=True)
            exists = key in catalogue.records()
            record = catalogue.put(key, body, Actor(principal.name), etag=if_match, only_create=if_match is None)
            response.status_code = 200 if exists else 201
            return answer(response, record)

        return await slow.run(principal, put)

    @router.delete(one, status_code=202)
    async def delete_pipeline(
        principal: Operator, key: Key, response: Response, state: StateOnDelete = "keep", if_match: Etag = None
    ) -> PipelineObject:
        """Drain a pipeline and remove it, with `state=delete` also its stored positions."""

        def delete() -> PipelineObject:
            return answer(response, catalogue.delete(key, state, Actor(principal.name), if_match))

        return await slow.run(principal, delete)

    @router.post(f"{one}/{{action}}", status_code=202)
    async def act(
        principal: Operator,
        key: Key,
        action: Literal["pause", "resume", "restart", "checkpoint"],
        response: Response,
        timeout: Annotated[float, Query(gt=0, le=300)] = _CHECKPOINT_SECONDS,
    ) -> PipelineObject:
        """Pause, resume or restart a pipeline, or store its position now."""
        actor = Actor(principal.name)

        def change() -> PipelineObject:
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

        return await slow.run(principal, change)

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


# ── pages ────────────────────────────────────────────────────────────────────────────────────────────────────────


def page_of(
    records: Sequence[PipelineRecord], cursor: str | None, limit: int
) -> tuple[list[PipelineRecord], str | None]:
    """Return the ``limit`` records after ``cursor``, and the cursor of the next page. Records that were added or
    removed in the meantime do not shift pages."""
    after = _decoded(cursor) if cursor else None
    rest = [record for record in records if after is None or record.key > after]
    page = rest[:limit]
    return page, _encoded(page[-1].key) if len(rest) > limit else None


def _encoded(key: PipelineKey) -> str:
    return base64.urlsafe_b64encode(str(key).encode()).decode()


def _decoded(cursor: str) -> PipelineKey:
    try:
        namespace, slash, name = base64.urlsafe_b64decode(cursor).decode().partition("/")
    except (binascii.Error, ValueError):
        slash = ""
    if not slash:
        raise StreamlingError.user("the cursor is invalid", remedy="use the value of 'next' of the previous page")
    return PipelineKey(namespace, name)
