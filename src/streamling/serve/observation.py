"""What a running pipeline shows: topology, epochs, live rows, rejected rows. The routes are those of a single run
(`serve/admin/routes.py`, `reading_routes`); those that change something belong to the API, which checks the role."""

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from streamling.serve.admin.routes import history_route
from streamling.serve.api_access import Key
from streamling.serve.api_errors import ApiError
from streamling.serve.control import ControlPlane
from streamling.serve.model import PipelineKey

_EVENTS: Final = {"200": {"description": "Server-sent events.", "content": {"text/event-stream": {}}}}
_NOTHING: Final = {"204": {"description": "The pipeline has not failed."}}


class _Passed(Response):
    """The answer of the routes of a pipeline."""

    def __init__(self, routes: ASGIApp, base: str) -> None:
        super().__init__()
        self._routes = routes
        self._base = base

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._routes({**scope, "root_path": self._base, "path_params": {}}, receive, send)


def add_observation_routes(api: FastAPI, control: ControlPlane, prefix: str) -> None:
    """Add the routes to ``api``."""

    def passed(request: Request, key: Key) -> Response:
        control.catalogue.get(key)
        shown = Router([history_route(partial(control.history, key))], default=control.routes(key) or _stored(key))
        one = f"{prefix}/pipelines/{key.namespace}/{key.name}"
        return _Passed(shown, f"{request.scope.get('root_path', '')}{one}")

    def _stored(key: PipelineKey) -> ASGIApp:
        """Return what can be shown of a pipeline that does not run."""

        async def topology(request: Request) -> JSONResponse:
            return JSONResponse(await run_in_threadpool(control.stored_topology, key))

        async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
            raise ApiError(
                409, "not_observable", f"the pipeline '{key}' is {control.state(key)}", "resume or restart it first"
            )

        return Router([Route("/topology", topology)], default=refuse)

    router = APIRouter(tags=["observation"])
    answered = Annotated[Response, Depends(passed)]

    @router.get("/topology")
    async def topology(answer: answered) -> Response:
        """Nodes and edges with their rates, waits and lag, and the last two minutes."""
        return answer

    @router.get("/topology/events", openapi_extra={"responses": _EVENTS})
    async def topology_events(answer: answered) -> Response:
        """The topology once a second, as server-sent events, without what never changes."""
        return answer

    @router.get("/history", openapi_extra=_parameters(minutes="how many, 60 by default", node="only this one"))
    async def history(answer: answered) -> Response:
        """Rates and lag of the nodes in the last hour."""
        return answer

    @router.get("/epochs", openapi_extra=_parameters(limit="how many"))
    async def epochs(answer: answered) -> Response:
        """The last checkpoints, newest first."""
        return answer

    @router.get("/error", openapi_extra={"responses": _NOTHING})
    async def error(answer: answered) -> Response:
        """Why the pipeline has failed."""
        return answer

    @router.get("/dead-letters", openapi_extra=_parameters(node="only rows of this node", limit="how many"))
    async def dead_letters(answer: answered) -> Response:
        """The last rejected rows, newest first."""
        return answer

    @router.get(
        "/live-data",
        openapi_extra={
            "responses": _EVENTS,
            **_parameters(
                topology_node_keys="the nodes, separated by commas",
                filter="a condition",
                kinds="row kinds: i, u, d, separated by commas",
                per_second="rows per second and node",
                order="order of the rows that are kept: newest_first or oldest_first",
            ),
        },
    )
    async def live_data(answer: answered) -> Response:
        """Rows of nodes, as server-sent events."""
        return answer

    api.include_router(router, prefix=f"{prefix}/pipelines/{{namespace}}/{{name}}")


def _parameters(**meanings: str) -> dict[str, Any]:
    """Return parameters of the query, which the routes of the pipeline check."""
    return {
        "parameters": [
            {"name": name, "in": "query", "required": False, "description": meaning, "schema": {"type": "string"}}
            for name, meaning in meanings.items()
        ]
    }
