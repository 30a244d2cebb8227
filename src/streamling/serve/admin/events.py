"""Streams of a pipeline: its topology once a second, and its log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.concurrency import run_in_threadpool

from streamling.observe.telemetry.log_book import LogBook
from streamling.serve.admin.pipeline import ObservedPipeline

_TOPOLOGY_SECONDS: Final = 1.0
#: seconds between two looks for new log records
_FOLLOW_SECONDS: Final = 0.25
#: a client that has received nothing for so long gets a keep-alive, which also shows whether it is still there
KEEP_ALIVE_SECONDS: Final = 15.0


def event(name: str | None, data: Any) -> str:
    """Return one server-sent event."""
    head = "" if name is None else f"event: {name}\n"
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n"


async def topology_events(pipeline: ObservedPipeline) -> AsyncIterator[str]:
    """Yield the topology once a second, until the pipeline ends."""
    while True:
        ended = pipeline.has_ended
        yield event("topology", await run_in_threadpool(pipeline.topology, full=False))
        if ended:
            yield event("end", {"reason": "the pipeline has ended"})
            return
        await asyncio.sleep(_TOPOLOGY_SECONDS)


async def log_lines(book: LogBook, pipeline: str, tail: int, follows: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield the last records as JSON lines; while ``follows``, also those to come."""
    last, quiet = book.last_number(pipeline), 0.0
    records = [record for record in book.tail(pipeline, tail) if record.number <= last]
    while True:
        for record in records:
            last, quiet = record.number, 0.0
            yield json.dumps(record.as_object(), ensure_ascii=False) + "\n"
        if not follows():
            return
        await asyncio.sleep(_FOLLOW_SECONDS)
        quiet += _FOLLOW_SECONDS
        if quiet >= KEEP_ALIVE_SECONDS:
            quiet = 0.0
            yield "\n"
        records = book.after(pipeline, last)
