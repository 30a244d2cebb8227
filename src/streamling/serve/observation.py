"""What a running pipeline shows: topology, epochs, live rows, rejected rows, with the routes of a single run."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.routing import Mount
from starlette.types import Receive, Scope, Send

from streamling.serve.api_access import check_namespace
from streamling.serve.api_errors import ApiError
from streamling.serve.control import ControlPlane
from streamling.serve.model import PipelineKey


def observation_routes(control: ControlPlane, prefix: str) -> Mount:
    """The routes that read; those that change something belong to the API, which checks the role of the client."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        key = PipelineKey(scope["path_params"]["namespace"], scope["path_params"]["name"])
        check_namespace(HTTPConnection(scope), key, f"there is no pipeline '{key}'")
        control.catalogue.get(key)
        routes = control.routes(key)
        if routes is None:
            raise ApiError(
                409, "not_observable", f"the pipeline '{key}' is {control.state(key)}", "resume or restart it first"
            )
        await routes(scope, receive, send)

    return Mount(f"{prefix}/pipelines/{{namespace}}/{{name}}", app=answer)
