"""The server: a thread per connection, one engine for all."""

from __future__ import annotations

from http.server import ThreadingHTTPServer
from socketserver import TCPServer

from streamling.dev.services.clickhouse_server.engine import Engine
from streamling.dev.services.clickhouse_server.errors import ClickHouseError
from streamling.dev.services.clickhouse_server.faults import Faults
from streamling.dev.services.clickhouse_server.handler import Handler
from streamling.dev.services.clickhouse_server.request import Request
from streamling.dev.services.clickhouse_server.sessions import Sessions


class ChdbServer(ThreadingHTTPServer):
    """ClickHouse's HTTP interface for one user."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], engine: Engine, *, user: str, password: str) -> None:
        super().__init__(address, Handler)
        self.engine = engine
        self.sessions = Sessions(engine)
        self.faults = Faults()
        self._credentials = (user, password)

    def server_bind(self) -> None:
        """Bind without a look-up of the host's name, which may take seconds."""
        TCPServer.server_bind(self)

    def authenticate(self, request: Request) -> None:
        user, password = request.credentials()
        if (user, password) != self._credentials:
            raise ClickHouseError.of(
                516,
                "AUTHENTICATION_FAILED",
                f"{user}: Authentication failed: password is incorrect, or there is no user with such name.",
            )
