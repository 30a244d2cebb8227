"""Errors that clients of the server see."""

from __future__ import annotations

from typing import Literal

from streamling.errors import StreamlingError
from streamling.serve.schemas import ProblemObject

#: why a request was refused; the API maps each to a status
Refusal = Literal["not_found", "exists", "changed", "managed", "deleting", "not_running", "timeout"]


class InvalidDefinition(StreamlingError):
    """A definition, or the settings of a pipeline, with errors."""

    def __init__(self, problems: list[ProblemObject], refused_settings: tuple[str, ...] = ()) -> None:
        super().__init__("; ".join(problem.message for problem in problems), internal=False)
        self.problems = problems
        #: those of the server that the pipeline tried to set
        self.refused_settings = refused_settings


class Refused(StreamlingError):
    """A request that cannot be carried out as things are."""

    def __init__(self, code: Refusal, message: str, remedy: str | None = None) -> None:
        super().__init__(message, internal=False, remedy=remedy)
        self.code = code
