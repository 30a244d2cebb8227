"""What the routes need from a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from streamling.observe.live_rows import LiveRows


class ObservedPipeline(Protocol):
    """A pipeline that is shown and controlled over HTTP. All methods may be called from any thread and do not block."""

    @property
    def live_rows(self) -> LiveRows: ...

    @property
    def has_ended(self) -> bool: ...

    def topology(self, *, full: bool = True) -> dict[str, Any]:
        """Nodes and edges with their numbers; without ``full``, what never changes is left out."""

    def history(self, buckets: int, node: str | None) -> dict[str, Any]:
        """Rates and lag of the pipeline, or of a node, in the last ``buckets`` of ten seconds."""

    def epochs(self, limit: int) -> Sequence[dict[str, Any]]:
        """The last epochs, newest first."""

    def error(self) -> dict[str, Any] | None:
        """Why the pipeline has failed; None if it has not."""

    def dead_letters(self, node: str | None, limit: int) -> Sequence[dict[str, Any]]:
        """The last rejected rows, newest first."""

    def has_node(self, name: str) -> bool: ...

    def columns(self, name: str) -> pa.Schema | None:
        """The columns of a node's rows; None if they are not known yet."""

    def upstreams(self, name: str) -> Sequence[str]:
        """The nodes whose rows ``name`` takes."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def checkpoint(self) -> None:
        """Request a checkpoint."""
