"""Serves the admin API of one run, on a thread of its own.

The server starts after the first rows have arrived at a sink, or two seconds after the start: the packages that it
needs must not delay them. A job that ends by itself always has these two seconds: if it is shorter, it has no server.
"""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from streamling.observe.rate_history import recording
from streamling.observe.telemetry.log_book import LogBook
from streamling.pipeline.config import AppConfig
from streamling.serve.admin.registry import registered

if TYPE_CHECKING:
    import uvicorn
    from pyspark.sql import SparkSession
    from starlette.types import ASGIApp

    from streamling.engine.run.observed import ObservedRun
    from streamling.engine.run.run import PipelineRun
    from streamling.serve.admin.routes import Preview

log = logging.getLogger(__name__)

#: the longest wait for the first rows
_START_SECONDS: Final = 2.0
#: open requests get this long when the run ends
_REQUEST_SECONDS: Final = 1
#: also the number of connections that asyncio accepts at once, before `LimitedConnection` can close any
_BACKLOG: Final = 128


class AdminServer:
    """The server of one run."""

    def __init__(
        self,
        observe: Callable[[], ObservedRun],
        config: AppConfig,
        previews: Callable[[], Preview] | None,
        file: str,
        logs: LogBook,
        *,
        bounded: bool,
    ) -> None:
        """``previews`` returns what starts a preview of ``file``; ``bounded``: the run has an end."""
        self._bounded = bounded
        self._observe = observe
        self._config = config
        self._previews = previews
        self._file = file
        self._logs = logs
        self._first_rows = threading.Event()
        self._ended = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._serve, name="admin api", daemon=True)

    def start_soon(self) -> None:
        """Start when the first rows have arrived, or after a moment."""
        self._thread.start()

    def first_rows(self) -> None:
        """Start the server: the first rows have arrived at a sink."""
        if not self._bounded:
            self._first_rows.set()

    def stop(self) -> None:
        self._ended.set()
        self._first_rows.set()
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join(_REQUEST_SECONDS + 1)

    def _serve(self) -> None:
        self._first_rows.wait(_START_SECONDS)
        if self._ended.is_set():
            return
        try:
            listening = listen(self._config)
        except OSError as error:
            address = f"{self._config.admin_api_host}:{self._config.admin_api_port}"
            log.warning("the admin API cannot listen on %s: %s (the pipeline is not affected)", address, error.strerror)
            return
        with listening:
            self._answer(listening)

    def _answer(self, listening: socket.socket) -> None:
        from streamling.serve.admin.application import create_application

        host, port = listening.getsockname()[:2]
        preview = None if self._previews is None else self._previews()
        observed = self._observe()
        self._server = create_server(create_application(observed, self._config, self._logs, preview))
        if self._ended.is_set():
            return
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        run = registered(self._config.cache_dir, url=url, file=self._file, application_id=self._config.application_id)
        with run, recording(observed.record):
            log.info("admin API: %s", url)
            self._server.run(sockets=[listening])


def create_server(application: ASGIApp) -> uvicorn.Server:
    """Return a server for ``application``."""
    import uvicorn

    from streamling.serve.admin.connections import LimitedConnection

    settings = uvicorn.Config(
        application,
        http=LimitedConnection,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_REQUEST_SECONDS,
        ws="none",
        backlog=_BACKLOG,
    )
    return uvicorn.Server(settings)


def listen(config: AppConfig) -> socket.socket:
    """Return a socket on the port of the configuration. If no port is configured and the default one is taken, another
    one is used, so that several runs work on one machine."""
    try:
        return bound(config.admin_api_host, config.admin_api_port)
    except OSError:
        if "admin_api_port" in config.model_fields_set:
            raise
    return bound(config.admin_api_host, 0)


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening


def _observed(run: PipelineRun, session: SparkSession, config: AppConfig) -> ObservedRun:
    from streamling.engine.run.memory import jvm_megabytes
    from streamling.engine.run.observed import ObservedRun

    return ObservedRun(
        run,
        name=run.pipeline.name or Path(run.pipeline.file).stem,
        application_id=config.application_id,
        jvm_megabytes=lambda: jvm_megabytes(session),
    )


@contextmanager
def admin_server(
    run: PipelineRun, session: SparkSession, config: AppConfig, previews: Callable[[], Preview] | None = None
) -> Iterator[AdminServer]:
    """Provide the server of ``run`` while the block runs, unless the configuration turns it off. ``previews`` returns
    what starts a preview of the pipeline's file; it is called when the server has started."""
    logs = LogBook()
    logging.getLogger("streamling").addHandler(logs)
    observe = partial(_observed, run, session, config)
    server = AdminServer(observe, config, previews, run.pipeline.file, logs, bounded=run.bounded)
    if config.admin_api_enabled:
        server.start_soon()
    try:
        yield server
    finally:
        server.stop()
        logging.getLogger("streamling").removeHandler(logs)
