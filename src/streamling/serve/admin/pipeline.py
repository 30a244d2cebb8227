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
        """Return nodes and edges with their numbers; without ``full``, what never changes is left out."""

    def history(self, buckets: int, node: str | None) -> dict[str, Any]:
        """Return rates and lag of the pipeline, or of a node, in the last ``buckets`` of ten seconds."""

    def epochs(self, limit: int) -> Sequence[dict[str, Any]]:
        """Return the last epochs, newest first."""

    def error(self) -> dict[str, Any] | None:
        """Return why the pipeline has failed; None if it has not."""

    def dead_letters(self, node: str | None, limit: int) -> Sequence[dict[str, Any]]:
        """Return the last rejected rows, newest first."""

    def has_node(self, name: str) -> bool: ...

    def columns(self, name: str) -> pa.Schema | None:
        """Return the columns of a node's rows; None if they are not known yet."""

    def upstreams(self, name: str) -> Sequence[str]:
        """Return the nodes whose rows ``name`` takes."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def checkpoint(self) -> None:
        """Request a checkpoint."""
