"""An HTTP server that returns the body of every request, with as little work per request as possible in Python.

``python -m benchmarks.http_server`` prints its port and exits when its standard input closes.
"""

from __future__ import annotations

import asyncio
import sys

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = b"content-length:"


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(_END_OF_HEAD)) >= 0:
            start = end + len(_END_OF_HEAD)
            stop = start + _content_length(self._received[:end])
            if len(self._received) < stop:
                return
            body, self._received = self._received[start:stop], self._received[stop:]
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )


def _content_length(head: bytes) -> int:
    _, _, rest = head.lower().partition(_LENGTH)
    return int(rest.split(b"\r\n", 1)[0] or 0)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Echo, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
