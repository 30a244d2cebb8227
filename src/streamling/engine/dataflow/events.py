"""How the running parts report to the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from streamling.errors import StreamlingError
from streamling.plugins.sources import Position

OnFailure = Callable[[StreamlingError], None]


@dataclass(frozen=True)
class Events:
    """All may be called from any thread."""

    #: everything of an epoch is durable: the instance of a sink or the side output, the epoch, and the entries to store
    #: together with its positions
    on_ack: Callable[[str, int, Mapping[str, Any]], None]
    #: a flow has sent the marker of an epoch, which covers this position
    on_marked: Callable[[str, int, Position], None]
    #: a flow has delivered its first batch since its last marker
    on_moved: Callable[[], None]
    #: a flow has delivered the last row of its source
    on_end: Callable[[str], None]
    on_failure: OnFailure
    #: a row limit has been reached: reason, and whether the unfinished epoch must not be committed
    on_limit: Callable[[str, bool], None]
    #: the first rows have reached a sink
    on_first_rows: Callable[[], None]
    #: requests a checkpoint now
    request_checkpoint: Callable[[], object]
