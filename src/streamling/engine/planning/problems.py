"""Collects the user's errors of several nodes, so that they are reported together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.pipeline.error_locations import problem_from_error
from streamling.pipeline.model import Node


class NodeProblems:
    """Collects errors of the user; an internal error is raised immediately."""

    def __init__(self) -> None:
        self._problems: list[Problem] = []

    @contextmanager
    def collect(self, node: Node) -> Iterator[None]:
        """Note a user's error of ``node`` that is raised inside the block."""
        try:
            yield
        except StreamlingError as error:
            if error.internal:
                raise
            self._problems.append(problem_from_error(error, node))

    def add(self, problems: Iterable[Problem]) -> None:
        self._problems += problems

    def raise_all(self) -> None:
        """Raise `InvalidPipeline` if there are any."""
        if self._problems:
            raise InvalidPipeline(self._problems)
