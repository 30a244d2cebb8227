"""What the size of a pipeline means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from streamling.pipeline.config import AppConfig
from streamling.serve.model import Size

#: what the engine uses for sizes without values of their own
_ROWS, _QUEUE = 200_000, 2


@dataclass(frozen=True)
class SizeLimits:
    """The share of a pipeline in the shared process, and the limits of a process of its own."""

    #: share of Spark's cores when all of them are busy
    weight: int
    #: rows per batch of Kafka sources; None: the engine's default
    rows: int | None
    #: batches that may wait in front of a node; None: the engine's default of 2
    queue: int | None
    heap: str
    cores: int

    def settings(self) -> dict[str, Any]:
        """Return the settings of a pipeline of this size; its own settings take precedence."""
        values = {"record_batch_size": self.rows, "internal_buffer_size": self.queue}
        return {name: value for name, value in values.items() if value is not None}

    def limits(self, server: AppConfig) -> dict[str, int]:
        """Return the largest values that a pipeline of this size may set: those of the size or of the server, otherwise
        the defaults: that of `record_batch_size` is the engine's, not that of the setting."""
        defaults = {"record_batch_size": _ROWS, "internal_buffer_size": _QUEUE}
        return {name: self.settings().get(name) or server.explicit_value(name) or defaults[name] for name in defaults}


SIZES: Mapping[Size, SizeLimits] = MappingProxyType(
    {
        "xs": SizeLimits(weight=1, rows=10_000, queue=1, heap="512m", cores=1),
        "s": SizeLimits(weight=2, rows=50_000, queue=1, heap="1g", cores=1),
        "m": SizeLimits(weight=4, rows=None, queue=None, heap="2g", cores=2),
        "l": SizeLimits(weight=8, rows=400_000, queue=4, heap="4g", cores=4),
        "xl": SizeLimits(weight=16, rows=1_000_000, queue=8, heap="8g", cores=8),
    }
)
