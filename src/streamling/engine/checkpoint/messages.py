"""Input (events) and output (actions) of the coordinator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamling.errors import StreamlingError
    from streamling.plugins.sources import Position

# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Moved:
    """A flow has delivered a batch, the first one since its last marker."""


@dataclass(frozen=True)
class Marked:
    """``flow`` is at a batch boundary: rows up to ``position``, and the marker after them, are in its lanes."""

    flow: str
    epoch: int
    position: Position


@dataclass(frozen=True)
class Ack:
    """Everything before the marker of ``epoch`` is durable in ``sink``, once ``entries`` are stored in the state
    backend together with the positions."""

    sink: str
    epoch: int
    entries: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Requested:
    """An epoch is requested as soon as possible, not only after the interval."""


@dataclass(frozen=True)
class TerminalRequested:
    """The pipeline drains: the next epoch is the last one."""


@dataclass(frozen=True)
class Stored:
    """The positions of ``epoch`` are in the state backend."""

    epoch: int


@dataclass(frozen=True)
class StoreFailed:
    """The state backend could not store the positions of ``epoch``."""

    epoch: int
    error: StreamlingError


@dataclass(frozen=True)
class Stop:
    """No further epochs; the one in flight is abandoned."""


Event = Tick | Moved | Marked | Ack | Requested | TerminalRequested | Stored | StoreFailed | Stop

# ── actions ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Marker:
    """Request a marker, and the position at the next batch boundary, from every flow."""

    epoch: int
    terminal: bool = False


@dataclass(frozen=True)
class Store:
    """Store ``entries`` in the state backend, all or none; report `Stored` or `StoreFailed`."""

    epoch: int
    entries: Mapping[str, Any]


@dataclass(frozen=True)
class Finalizer:
    """``epoch`` is complete: everything up to ``positions`` is durable, and the positions are stored."""

    epoch: int
    positions: Mapping[str, Position]
    terminal: bool
    seconds: float


@dataclass(frozen=True)
class Failure:
    """The epoch cannot complete; the pipeline has to stop. Nothing of it was committed."""

    error: StreamlingError


@dataclass(frozen=True)
class Warn:
    """Something the user should know about."""

    message: str


Action = Marker | Store | Finalizer | Failure | Warn
