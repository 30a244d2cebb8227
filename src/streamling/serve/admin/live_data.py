"""Rows of nodes as server-sent events: first those that are kept, then new ones, sampled."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from starlette.concurrency import run_in_threadpool

from streamling.errors import StreamlingError
from streamling.observe.row_filter import RowFilter
from streamling.redaction import redact
from streamling.serve.admin.events import KEEP_ALIVE_SECONDS, event
from streamling.serve.admin.guard import error_body
from streamling.serve.admin.parameters import positive_number
from streamling.serve.admin.pipeline import ObservedPipeline

_POLL_SECONDS: Final = 0.1
_MOST_PER_SECOND: Final = 1000
#: of a request that names no rate
_USUAL_PER_SECOND: Final = 100


@dataclass(frozen=True)
class LiveDataRequest:
    """The parameters of a request."""

    nodes: tuple[str, ...]
    selection: RowFilter
    #: rows per second and node; None: those that are kept
    per_second: float | None
    #: whether rows that are kept come in the order in which they passed the node; otherwise the newest comes first
    oldest_first: bool

    @classmethod
    def of(cls, pipeline: ObservedPipeline, parameters: Mapping[str, str]) -> LiveDataRequest:
        names = tuple(name.strip() for name in parameters.get("topology_node_keys", "").split(",") if name.strip())
        if not names:
            raise StreamlingError.user("the parameter 'topology_node_keys' is missing: name the nodes to watch")
        for name in names:
            _check_node(pipeline, name)
        kinds = frozenset(kind.strip() for kind in parameters.get("kinds", "").split(",") if kind.strip())
        selection = RowFilter.of(parameters.get("filter"), kinds)
        for name in names:
            if (columns := pipeline.columns(name)) is not None:
                selection.check(columns)
        per_second = positive_number(parameters.get("per_second"), "the parameter 'per_second'", _MOST_PER_SECOND)
        return cls(names, selection, per_second, _oldest_first(parameters.get("order")))


def _check_node(pipeline: ObservedPipeline, name: str) -> None:
    if name in pipeline.live_rows:
        return
    if not pipeline.has_node(name):
        raise StreamlingError.user(f"there is no node '{name}' in this pipeline")
    upstreams = " or ".join(f"'{each}'" for each in pipeline.upstreams(name))
    raise StreamlingError.user(
        f"'{name}' has no output", remedy=f"watch {upstreams}, whose rows it takes" if upstreams else None
    )


def _oldest_first(text: str | None) -> bool:
    if text not in (None, "newest_first", "oldest_first"):
        raise StreamlingError.user(f"the parameter 'order' is '{text}', which is neither newest_first nor oldest_first")
    return text == "oldest_first"


def live_data(pipeline: ObservedPipeline, parameters: Mapping[str, str]) -> AsyncIterator[str]:
    """Return the events that answer a request; raises if it is invalid."""
    return _events(pipeline, LiveDataRequest.of(pipeline, parameters))


async def _events(pipeline: ObservedPipeline, request: LiveDataRequest) -> AsyncIterator[str]:
    """Yield rows as events, until the filter no longer fits the columns of a node because they have changed."""
    try:
        async for text in _rows(pipeline, request):
            yield text
    except StreamlingError as error:
        yield event("error", error_body("invalid", str(error), error.remedy))


async def _rows(pipeline: ObservedPipeline, request: LiveDataRequest) -> AsyncIterator[str]:
    rows, last_sent = pipeline.live_rows, time.monotonic()
    with rows.listening(request.nodes, per_second=request.per_second, whole=request.selection.selects) as listener:
        yield ": rows follow\n\n"
        for name in request.nodes:
            newest_first = not request.oldest_first
            for batch in rows.stored(name)[:: 1 if newest_first else -1]:
                for text in await run_in_threadpool(_texts, name, batch, request, newest_first=newest_first):
                    yield text
        while True:
            ended = pipeline.has_ended
            for name, batch in listener.take().items():
                for text in await run_in_threadpool(_texts, name, batch, request):
                    last_sent = time.monotonic()
                    yield text
            if ended:
                yield event("end", {"reason": "the pipeline has ended"})
                return
            if time.monotonic() - last_sent >= KEEP_ALIVE_SECONDS:
                last_sent = time.monotonic()
                yield ": keep-alive\n\n"
            await asyncio.sleep(_POLL_SECONDS)


def _texts(node: str, batch: pa.RecordBatch, request: LiveDataRequest, *, newest_first: bool = False) -> list[str]:
    from streamling.types.json import json_rows

    selected = request.selection.apply(batch).slice(0, int(max(1, request.per_second or _USUAL_PER_SECOND)))
    rows = [redact(text) for text in json_rows(selected)]
    return list(_row_events(node, rows[::-1] if newest_first else rows))


def _row_events(node: str, rows: list[str]) -> Iterator[str]:
    key = json.dumps(node, ensure_ascii=False)
    for row in rows:
        yield f'data: {{"topology_node_key": {key}, "data": {row}}}\n\n'
