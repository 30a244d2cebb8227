"""Errors as responses: `{"error": {"code", "message", "remedy"}, "problems": […]}`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from streamling.errors import StreamlingError
from streamling.redaction import redact
from streamling.serve.errors import InvalidDefinition, Refusal, Refused
from streamling.serve.schemas import ErrorBody, ErrorObject, ProblemObject

log = logging.getLogger(__name__)

_STATUS: Mapping[Refusal, int] = {
    "not_found": 404,
    "exists": 409,
    "managed": 409,
    "deleting": 409,
    "not_running": 409,
    "changed": 412,
    "timeout": 504,
}
_CODES = {404: "not_found", 405: "method_not_allowed"}


class ApiError(Exception):
    """A request that the API itself refuses."""

    def __init__(
        self, status: int, code: str, message: str, remedy: str | None = None, *, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.remedy = remedy
        self.headers = None if retry_after is None else {"Retry-After": str(retry_after)}


def add_error_handlers(api: FastAPI) -> None:
    """Turn every exception into the same kind of body."""

    @api.exception_handler(ApiError)
    async def refused_by_api(request: Request, error: ApiError) -> JSONResponse:
        response = _response(error.status, error.code, str(error), error.remedy)
        response.headers.update(error.headers or {})
        return response

    @api.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return _response(_STATUS[error.code], error.code, error.sentence, error.remedy)

    @api.exception_handler(InvalidDefinition)
    async def invalid(request: Request, error: InvalidDefinition) -> JSONResponse:
        note_refused_settings(request, error)
        problems = error.problems
        message = problems[0].message if len(problems) == 1 else f"the definition has {len(problems)} problems"
        return _response(422, "invalid", message, problems[0].remedy if len(problems) == 1 else None, problems)

    @api.exception_handler(StreamlingError)
    async def failed(request: Request, error: StreamlingError) -> JSONResponse:
        if not error.internal:
            return _response(422, "invalid", error.sentence, error.remedy)
        log.warning("%s %s: %s", request.method, request.url.path, error.with_causes)
        return _response(503 if error.retriable else 500, "unavailable", error.with_causes, error.remedy)

    @api.exception_handler(RequestValidationError)
    async def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        found = [_malformed(details) for details in error.errors()]
        return _response(422, "malformed", "; ".join(found), "see the OpenAPI description at /api/v1/openapi.json")

    @api.exception_handler(HTTPException)
    async def by_starlette(request: Request, error: HTTPException) -> JSONResponse:
        return _response(error.status_code, _CODES.get(error.status_code, "error"), str(error.detail))

    @api.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return _response(500, "internal", f"an internal error: {type(error).__name__}", "see the log of the server")


def note_refused_settings(request: Request, error: InvalidDefinition) -> None:
    """Let `refusals.py` record which settings of the server a request tried to change."""
    request.scope["refused_settings"] = error.refused_settings


def _malformed(details: Mapping[str, Any]) -> str:
    """Return the place and the rule; not the value, which may be a secret."""
    place = ".".join(str(part) for part in details["loc"])
    return f"{place}: {details['msg']}"


def _response(
    status: int, code: str, message: str, remedy: str | None = None, problems: list[ProblemObject] | None = None
) -> JSONResponse:
    error = ErrorObject(code=code, message=redact(message), remedy=redact(remedy) if remedy else None)
    return JSONResponse(ErrorBody(error=error, problems=problems or []).model_dump(), status)
