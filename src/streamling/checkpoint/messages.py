"""What goes into the coordinator (events) and what comes out of it (actions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamling.errors import StreamlingError
    from streamling.plugins.operators import Position

# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True)
class Marked:
    """``flow`` is at a batch boundary: rows up to ``position`` are in its lanes, the marker behind them."""

    flow: str
    epoch: int
    position: Position


@dataclass(frozen=True)
class Ack:
    """Everything before the marker of ``epoch`` is durable in ``sink``, once ``entries`` are in the state backend
    together with the positions."""

    sink: str
    epoch: int
    entries: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SinkEnded:
    """``sink`` has made everything durable and will get no more rows."""

    sink: str


@dataclass(frozen=True)
class Requested:
    """An epoch is wanted as soon as possible, not only after the interval."""


@dataclass(frozen=True)
class TerminalRequested:
    """The pipeline drains: the next epoch is the last one."""


@dataclass(frozen=True)
class Stored:
    """The positions of ``epoch`` are in the state backend."""

    epoch: int


@dataclass(frozen=True)
class StoreFailed:
    """The state backend did not take the positions of ``epoch``."""

    epoch: int
    error: StreamlingError


@dataclass(frozen=True)
class Stop:
    """No further epochs; the one in flight is given up."""


Event = Tick | Marked | Ack | SinkEnded | Requested | TerminalRequested | Stored | StoreFailed | Stop

# ── actions ─────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Marker:
    """Ask every flow for its position at the next batch boundary, and for a marker in its lanes."""

    epoch: int
    terminal: bool = False


@dataclass(frozen=True)
class Store:
    """Put ``entries`` into the state backend, all or none; answer with `Stored` or `StoreFailed`."""

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
