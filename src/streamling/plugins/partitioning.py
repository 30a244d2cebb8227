"""How many instances of an operator run in parallel, and which rows each of them gets."""

from __future__ import annotations

from dataclasses import dataclass

from streamling.errors import StreamlingError


@dataclass(frozen=True)
class ByPrimaryKey:
    """All operations on one key go to one instance, in order; without a key, batches go to the instances in turn."""


@dataclass(frozen=True)
class ByColumns:
    """Rows that are equal in these columns go to one instance, in order."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class RoundRobin:
    """Batches go to the instances in turn."""


@dataclass(frozen=True)
class Partitioning:
    """What an operator class declares about its instances (`Operator.partitioning`)."""

    minimum: int = 1
    #: None: any number
    maximum: int | None = None
    #: instances when the file has no `parallelism`; None: the minimum
    preferred: int | None = None
    #: which instance gets which rows; not used for sources
    routing: ByPrimaryKey | ByColumns | RoundRobin = ByPrimaryKey()

    def count(self, parallelism: int | None) -> int:
        """Return the number of instances; ``parallelism`` is that of the file."""
        if parallelism is None:
            return max(self.minimum, self.preferred or self.minimum)
        if parallelism < self.minimum or (self.maximum is not None and parallelism > self.maximum):
            raise StreamlingError.user(f"parallelism is {parallelism}, expected {self._range()}", remedy="change it")
        return parallelism

    def _range(self) -> str:
        if self.maximum is None:
            return f"at least {self.minimum}"
        return str(self.minimum) if self.minimum == self.maximum else f"{self.minimum} to {self.maximum}"
