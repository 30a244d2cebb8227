"""Why there is no answer."""

from __future__ import annotations


class NoResponseError(Exception):
    """A reason that may pass by itself, as the end of a sentence. It holds nothing of the address but the host."""


class ConnectFailedError(NoResponseError):
    """Nobody takes a connection at the address."""


class ResponseTooLargeError(Exception):
    """The answer is longer than allowed."""
