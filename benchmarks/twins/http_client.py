"""Rows through an HTTP endpoint, written by hand: a connection pool with a number of concurrent requests."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

import aiohttp
import pyarrow as pa


def bare(url: str, bodies: Sequence[bytes], at_once: int) -> float:
    """Return the seconds until all requests are answered; the responses are discarded."""
    return asyncio.run(_post_all(url, bodies, at_once, lambda answer: None))


def with_json(url: str, batches: Sequence[pa.RecordBatch], rows: int, at_once: int) -> float:
    """Return the same with Arrow rows on both sides, ``rows`` of them per request."""

    def bodies() -> Iterator[bytes]:
        for batch in batches:
            for start in range(0, batch.num_rows, rows):
                yield json.dumps(batch.slice(start, rows).to_pylist()).encode()

    schema = batches[0].schema
    return asyncio.run(
        _post_all(url, bodies(), at_once, lambda answer: pa.RecordBatch.from_pylist(json.loads(answer), schema))
    )


async def _post_all(url: str, bodies: Iterable[bytes], at_once: int, take: Callable[[bytes], object]) -> float:
    headers = {"Content-Type": "application/json"}
    left = iter(bodies)

    async def work(session: aiohttp.ClientSession) -> None:
        for body in left:
            async with session.post(url, data=body, headers=headers) as response:
                response.raise_for_status()
                take(await response.read())

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=at_once)) as session:
        began = time.monotonic()
        await asyncio.gather(*(work(session) for _ in range(at_once)))
        return time.monotonic() - began
