"""What a running pipeline shows: topology, epochs, live rows, rejected rows, with the routes of a single run."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Mount

from streamling.admin.pipeline import ObservedPipeline
from streamling.admin.routes import pipeline_routes
from streamling.serve.access import Principal
from streamling.serve.api_errors import ApiError
from streamling.serve.control import ControlPlane
from streamling.serve.model import PipelineKey


def observation_routes(control: ControlPlane, prefix: str) -> Mount:
    """The routes that read; those that change something belong to the API, which checks the role of the client."""

    def find(request: Request) -> ObservedPipeline:
        key = PipelineKey(request.path_params["namespace"], request.path_params["name"])
        principal: Principal = request.scope["principal"]
        if not principal.sees(key.namespace) or key not in control.catalogue.records():
            raise ApiError(404, "not_found", f"there is no pipeline '{key}'")
        found = control.observed(key)
        if found is None:
            raise ApiError(
                409,
                "not_observable",
                f"the pipeline '{key}' is {control.state(key)}, or runs in a process of its own",
                "resume it, or set its isolation to 'shared'",
            )
        return found

    reading = [route for route in pipeline_routes(find) if "GET" in (route.methods or ())]
    return Mount(f"{prefix}/pipelines/{{namespace}}/{{name}}", routes=reading)
