"""Why there is no answer."""

from __future__ import annotations


class NoAnswer(Exception):
    """A reason that may pass by itself, as the end of a sentence. It holds nothing of the address but the host."""


class NoConnection(NoAnswer):
    """Nobody takes a connection at the address."""


class TooLong(Exception):
    """The answer is longer than allowed."""
