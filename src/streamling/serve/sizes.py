"""What the size of a pipeline means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from streamling.errors import Problem
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Pipeline
from streamling.pipeline.validation_errors import problem_at
from streamling.serve.model import Size

#: what the engine uses for sizes without values of their own
_ROWS, _QUEUE = 200_000, 2
#: Seconds between two checkpoints of a pipeline, unless those of the server are closer: each is a transaction in the
#: state backend, which all pipelines share.
_SHORTEST_INTERVAL = 1.0


@dataclass(frozen=True)
class SizeLimits:
    """The share of a pipeline in the shared process, and the limits of a process of its own."""

    #: share of Spark's cores when all of them are busy
    weight: int
    #: rows per batch of Kafka sources; None: the engine's default
    rows: int | None
    #: batches that may wait in front of a node; None: the engine's default of 2
    queue: int | None
    #: of one node: each has a thread, some also a sandbox or a connection
    instances: int
    heap: str
    cores: int

    def settings(self) -> dict[str, Any]:
        """Return the settings of a pipeline of this size; its own settings take precedence."""
        values = {"record_batch_size": self.rows, "internal_buffer_size": self.queue}
        return {name: value for name, value in values.items() if value is not None}

    def limits(self, server: AppConfig) -> dict[str, float]:
        """Return the limits of the settings of a pipeline of this size: those of the size or of the server, otherwise
        the defaults: that of `record_batch_size` is the engine's, not that of the setting."""
        defaults = {"record_batch_size": _ROWS, "internal_buffer_size": _QUEUE}
        found = {name: self.settings().get(name) or server.explicit_value(name) or defaults[name] for name in defaults}
        return {**found, "checkpoint_interval_sec": min(_SHORTEST_INTERVAL, server.checkpoint_interval_sec)}

    def problems(self, pipeline: Pipeline, server: AppConfig) -> list[Problem]:
        """Return the fields of nodes that are larger than what a pipeline of this size may use."""
        limits = {"parallelism": self.instances, "batch_size": self.limits(server)["record_batch_size"]}
        return [
            problem_at(
                f"{node}: {field} is {value}, but a pipeline of this size may use at most {limit:.15g}",
                node.field_location(field),
                "use a smaller value, or a larger size for the pipeline",
            )
            for node in pipeline
            for field, limit in limits.items()
            if isinstance(value := getattr(node.options, field, None), int) and value > limit
        ]


#: definitions are checked with its limits if their size is not known
LARGEST: Final[Size] = "xl"
SIZES: Mapping[Size, SizeLimits] = MappingProxyType(
    {
        "xs": SizeLimits(weight=1, rows=10_000, queue=1, instances=2, heap="512m", cores=1),
        "s": SizeLimits(weight=2, rows=50_000, queue=1, instances=4, heap="1g", cores=1),
        "m": SizeLimits(weight=4, rows=None, queue=None, instances=8, heap="2g", cores=2),
        "l": SizeLimits(weight=8, rows=400_000, queue=4, instances=16, heap="4g", cores=4),
        "xl": SizeLimits(weight=16, rows=1_000_000, queue=8, instances=32, heap="8g", cores=8),
    }
)
