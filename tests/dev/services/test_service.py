"""The common behaviour of all local services, tested with the smallest of them."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.dev.services.service import LocalService, accepts, free_port, port_is_free
from streamling.errors import StreamlingError


class WebServer(LocalService):
    """Python's own web server, which serves its folder."""

    name = "web"
    title = "The web server"
    _start_seconds = 20.0

    def __init__(self, folder: Path, *, port: int = 0, program: str | None = None) -> None:
        super().__init__(folder, {"main": port})
        self._program = program

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def variables(self) -> dict[str, str]:
        return {"WEB": self.address}

    def _prepare(self) -> None:
        (self.folder / "prepared").touch()

    def _command(self) -> list[str]:
        if self._program is not None:
            return [sys.executable, "-c", self._program]
        return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(self.port)]

    def _is_ready(self) -> bool:
        return accepts(self.port)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    service = WebServer(tmp_path / "web")
    service.start()
    yield service
    service.kill()


def test_a_started_service_answers(web: WebServer) -> None:
    assert web.running
    assert accepts(web.port)
    assert web.memory > 1_000_000
    assert web.log.is_file()


def test_another_object_finds_and_stops_it(web: WebServer, tmp_path: Path) -> None:
    other = WebServer(tmp_path / "web")
    assert (other.pid, other.port) == (web.pid, web.port)
    other.start()  # already running
    assert other.pid == web.pid
    other.stop()
    assert not web.running
    assert not other.running
    assert not accepts(web.port)


def test_it_gets_its_port_again(web: WebServer, tmp_path: Path) -> None:
    port = web.port
    web.kill()
    with WebServer(tmp_path / "web") as again:
        assert again.port == port


def test_it_gets_another_port_when_its_own_is_taken(web: WebServer, tmp_path: Path) -> None:
    port = web.port
    web.stop()
    with socket.create_server(("127.0.0.1", port)), WebServer(tmp_path / "web") as again:
        assert again.port not in (0, port)


def test_a_requested_port_that_is_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StreamlingError, match=f"did not start on port {port}: another program"):
            WebServer(tmp_path / "web", port=port).start()


def test_a_process_that_reuses_the_pid_is_not_ours(web: WebServer, tmp_path: Path) -> None:
    record = tmp_path / "web" / "service.json"
    written = json.loads(record.read_text())
    record.write_text(json.dumps({**written, "created": written["created"] - 60}))
    stranger = WebServer(tmp_path / "web")
    assert not stranger.running
    stranger.stop()
    stranger.kill()
    assert accepts(web.port)
    record.write_text(json.dumps(written))  # so that it can be stopped


def test_a_service_that_exits_immediately_is_reported_with_its_last_output(tmp_path: Path) -> None:
    service = WebServer(tmp_path / "web", program="print('no space left'); raise SystemExit(3)")
    with pytest.raises(StreamlingError, match="it exited immediately: no space left") as error:
        service.start()
    assert "web.log" in str(error.value.remedy)
    assert not service.running


def test_a_service_that_does_not_end_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, socket, json, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "server = socket.create_server(('127.0.0.1', json.load(open('service.json'))['ports']['main'])); "
        "time.sleep(600)"
    )
    service = WebServer(tmp_path / "web", program=deaf)
    service.stop_seconds = 0.2  # type: ignore[misc]
    service.start()
    service.stop()
    assert not service.running


def test_delete_leaves_nothing(web: WebServer, tmp_path: Path) -> None:
    web.delete()
    assert not web.running
    assert not (tmp_path / "web").exists()


def test_free_ports_are_below_those_that_clients_are_given() -> None:
    ports = {free_port() for _ in range(20)}
    assert all(port_is_free(port) for port in ports)
    assert max(ports) < 32_768
