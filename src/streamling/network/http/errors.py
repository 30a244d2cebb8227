"""Errors of requests without a usable response."""

from __future__ import annotations


class NoResponseError(Exception):
    """A reason that a retry may fix, as the end of a sentence. Of the address it contains only the host."""


class ConnectFailedError(NoResponseError):
    """The address does not accept a connection."""


class ResponseTooLargeError(Exception):
    """The response is larger than allowed."""
