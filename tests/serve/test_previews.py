"""Previews with processes that are small servers of this test."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from streamling.errors import StreamlingError
from streamling.serve.admin.remote import RemoteAdmin
from streamling.serve.admin.server import bound, create_server
from streamling.serve.previews import PreviewLimits, PreviewNode, PreviewOwner, Previews
from tests.serve.admin.server_thread import started

ME = PreviewOwner("me")
NODES = [PreviewNode("orders", "source", "file")]


class Process:
    """Serves rows without end, and counts how often it is stopped."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.stops = 0

    async def admin(self) -> RemoteAdmin:
        return RemoteAdmin(self.port)

    async def stop(self) -> None:
        self.stops += 1


async def _rows() -> AsyncIterator[str]:
    yield ": rows follow\n\n"
    for number in range(1_000_000):
        yield f'data: {{"topology_node_key": "orders", "data": {{"id": {number}}}}}\n\n'
        await asyncio.sleep(0.001)


async def _live_data(request: Request) -> Response:
    return StreamingResponse(_rows(), media_type="text/event-stream")


async def _error(request: Request) -> Response:
    return JSONResponse({"node": "orders", "message": "no such file", "remedy": "write it"})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = create_server(Starlette(routes=[Route("/live-data", _live_data), Route("/error", _error)]))
    with bound("127.0.0.1", 0) as listening, started(server, listening) as found:
        yield found


async def _open(previews: Previews, owner: PreviewOwner, process: Process, limits: PreviewLimits) -> AsyncIterator[str]:
    async def start() -> Process:
        return process

    return await previews.open(owner, start, NODES, limits)


def test_a_preview_ends_after_its_rows_with_the_error_and_stops_its_process(port):
    process = Process(port)

    async def run() -> list[str]:
        return [text async for text in await _open(Previews(1), ME, process, PreviewLimits(60, 3))]

    nodes, *rows, error, end = asyncio.run(run())
    assert json.loads(nodes.partition("data: ")[2]) == [{"name": "orders", "kind": "source", "type": "file"}]
    assert [json.loads(row[6:])["data"]["id"] for row in rows] == [0, 1, 2]
    assert json.loads(error.partition("data: ")[2])["error"] == {
        "code": "failed",
        "message": "no such file",
        "remedy": "write it",
    }
    assert end == 'event: end\ndata: {"reason": "preview ended"}\n\n'
    assert process.stops == 1


def test_a_preview_ends_when_its_time_is_up(port):
    async def run() -> list[str]:
        return [text async for text in await _open(Previews(1), ME, Process(port), PreviewLimits(0.2, None))]

    end = asyncio.run(run())[-1]
    assert end == 'event: end\ndata: {"reason": "preview ended", "time_is_up": true}\n\n'


def test_a_client_that_leaves_stops_the_process(port):
    process = Process(port)

    async def run() -> None:
        events = await _open(Previews(1), ME, process, PreviewLimits(60, None))
        await anext(events)
        await events.aclose()

    asyncio.run(run())
    assert process.stops == 1


ADA, BOB, CYD = (PreviewOwner(name, frozenset({f"team-of-{name}"})) for name in ("ada", "bob", "cyd"))


def test_an_owner_has_one_preview_and_all_owners_have_a_limit(port):
    processes = [Process(port) for _ in range(4)]

    async def run() -> None:
        previews, limits = Previews(2), PreviewLimits(60, 1)
        await _open(previews, ADA, processes[0], limits)
        replaced = await _open(previews, ADA, processes[1], limits)
        assert [process.stops for process in processes] == [1, 0, 0, 0]
        await _open(previews, BOB, processes[2], limits)
        with pytest.raises(StreamlingError, match="2 previews of other users are running"):
            await _open(previews, CYD, processes[3], limits)
        async for _ in replaced:
            pass
        await _open(previews, CYD, processes[3], limits)

    asyncio.run(run())


def test_owners_of_one_namespace_have_one_preview(port):
    first, second, third = (Process(port) for _ in range(3))
    colleague = PreviewOwner("ann", ADA.namespaces | {"other"})

    async def run() -> None:
        previews, limits = Previews(2), PreviewLimits(60, None)
        await _open(previews, ADA, first, limits)
        with pytest.raises(StreamlingError, match="a preview of 'ada' is running, which is the limit for its namesp"):
            await _open(previews, colleague, second, limits)
        await _open(previews, BOB, third, limits)
        assert (first.stops, third.stops) == (0, 0)

    asyncio.run(run())


def test_nobody_keeps_others_from_previews_for_longer_than_a_minute(port):
    processes, now = [Process(port) for _ in range(4)], 0.0

    async def run() -> list[str]:
        nonlocal now
        previews, limits = Previews(2, lambda: now), PreviewLimits(600, 1)
        events = await _open(previews, ADA, processes[0], limits)
        now = 30.0
        await _open(previews, BOB, processes[1], limits)
        now = 59.5
        with pytest.raises(StreamlingError) as refused:
            await _open(previews, CYD, processes[2], limits)
        assert refused.value.remedy == "try again in 1 s"
        now = 60.0
        await _open(previews, CYD, processes[2], limits)
        assert [process.stops for process in processes] == [1, 0, 0, 0]
        return [text async for text in events]

    *_, error, end = asyncio.run(run())
    assert "the preview was ended because another one was started" in error
    assert end.startswith("event: end")


def test_a_process_that_has_ended_is_reported():
    async def run() -> list[str]:
        with bound("127.0.0.1", 0) as listening:
            port = listening.getsockname()[1]
        return [text async for text in await _open(Previews(1), ME, Process(port), PreviewLimits(60, 1))]

    _, error, end = asyncio.run(run())
    assert "the process of the pipeline has ended" in error
    assert end.startswith("event: end")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"duration_seconds": "601"}, "duration_seconds is '601', which is not between 0 and 600"),
        ({"duration_seconds": "nan"}, "duration_seconds is 'nan'"),
        ({"rows": "x"}, "rows is 'x', which is not between 0 and 1000"),
        ({"rows": "0"}, "rows is '0'"),
    ],
)
def test_limits_out_of_range_are_refused(parameters, message):
    with pytest.raises(StreamlingError, match=message):
        PreviewLimits.of(parameters)
