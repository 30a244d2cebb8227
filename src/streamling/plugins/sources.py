"""Sources: what they deliver, and the class of those that the engine polls. `streams` has the others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from streamling.pipeline.model import NodeKind
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import Operator, OptionsT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: How far a source has been read: state key → JSON value. The engine stores it once everything before it is durable.
#: Only the source interprets it; equal positions mean the same place.
Position = Mapping[str, Any]


@dataclass(frozen=True)
class SparkRead:
    """Rows that Spark reads itself. ``frame`` is called before the source is asked for its next batch, and not after
    that."""

    frame: Callable[[SparkSession], DataFrame]
    #: how many there are; None: not known before they are read
    rows: int | None = None


@dataclass(frozen=True)
class SourceBatch:
    """Some rows and the position after them."""

    rows: pa.RecordBatch | pa.Table | SparkRead
    position: Position


@dataclass(frozen=True)
class Wait:
    """There is nothing to read now; the engine asks again after ``seconds`` (sooner when the pipeline stops)."""

    seconds: float


class End:
    """The source is exhausted and will never have more."""


END: Final = End()


@dataclass(frozen=True)
class Progress:
    """Progress of bounded work."""

    done: int
    total: int
    unit: str = "rows"
    #: the part of the work that this is about, if there are several
    part: str = ""


class AnySource(Operator[OptionsT]):
    """The base of both kinds of sources."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.SOURCE
    scales_with_parallelism: ClassVar[bool] = False
    #: True if the source has an end; needed for job mode and decides the drain policy.
    #: A property where it depends on options.
    bounded: bool = False

    @property
    def always_drains(self) -> bool:
        """Whether a stop stores the position of everything delivered, even with ``drain_policy: fast``. By default
        bounded sources do."""
        return self.bounded

    @property
    def is_deterministic(self) -> bool:
        """A source gives Spark the range of rows to read, so reading them again returns the same rows."""
        return True

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Return the columns of every batch. Called before Spark has started, on any thread. ``_gs_op`` is optional:
        the engine adds it with the value ``'i'``."""

    def inferred_primary_key(self) -> tuple[str, ...]:
        """Return key columns that the source knows, used when the pipeline file does not set a primary key."""
        return ()

    def restore(self) -> Position:
        """Return the stored position (read with ``context.state``), or the configured start. Called once after
        ``open``, before the first batch. The default reads the entry under `NodeContext.state_key`."""
        stored = self.context.state.get(self.context.state_key)
        return {} if stored is None else {self.context.state_key: stored}

    def state_keys(self) -> Sequence[str]:
        """Return keys that the position consists of, for `plan`; ``*`` replaces what only the data determines."""
        return self.context.state_keys

    def commit(self, position: Position) -> None:
        """Commit ``position``, which is stored, and up to which everything is durable in all sinks, to the external
        system (a consumer group, a queue). May be called twice with the same position. A value of None means that
        another instance had claimed that key, so ours was not stored."""

    def caught_up(self) -> bool:
        """Return whether everything that existed at the start has been read. Rows that look values up in a table wait
        until the source that fills it has caught up. Called between batches, only while rows wait. A source that
        returns `Wait` or `END` has caught up anyway."""
        return False

    @property
    def is_realtime(self) -> bool:
        """Whether rows must not wait, neither for a Spark job nor for other rows: the engine refuses a pipeline in
        which they would. Only for streamed sources."""
        return False

    def lag(self) -> int | None:
        """Return how many rows or messages have not been read yet, as last known; None when unknown. Called from any
        thread; must not block."""
        return None

    def progress(self) -> Progress | None:
        """Return how much of the known work has been read; None when unknown."""
        return None


class Source(AnySource[OptionsT]):
    """A source that the engine asks for batches."""

    execution: ClassVar[ExecutionMode] = ExecutionMode.POLLED

    @abstractmethod
    def read(self, position: Position) -> SourceBatch | Wait | End:
        """Return the next batch after ``position``, which the previous call (or `restore`) returned. Called repeatedly
        on the flow's thread until it returns `END`; not called while a sink is behind. Must not block for more than
        about a second: return `Wait`. After a restart, the same position must lead to the same rows."""
