"""Errors that clients of the server see."""

from __future__ import annotations

from typing import Literal

from streamling.errors import StreamlingError

#: why a request was refused; the API maps each to a status
Refusal = Literal["not_found", "exists", "changed", "managed", "deleting", "not_running", "timeout"]


class Refused(StreamlingError):
    """A request that cannot be carried out as things are."""

    def __init__(self, code: Refusal, message: str, remedy: str | None = None) -> None:
        super().__init__(message, internal=False, remedy=remedy)
        self.code = code
