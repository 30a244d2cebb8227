"""The server: catalogue, reconciler, runtimes and API in one process."""

from __future__ import annotations

import logging
import resource
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from streamling.errors import StreamlingError
from streamling.observe.rate_history import recording
from streamling.observe.telemetry.log_book import LogBook
from streamling.pipeline.config import AppConfig
from streamling.pipeline.secrets.store import SecretStore
from streamling.plugins.state_backend import SqlDatabase
from streamling.serve.access import Access, RateLimit, is_loopback
from streamling.serve.catalogue import Catalogue, open_database
from streamling.serve.config import ServeConfig, ServeSettings
from streamling.serve.control import ControlPlane
from streamling.serve.folder import PipelineFolder
from streamling.serve.garbage import GarbageCollection
from streamling.serve.launchers import Launchers
from streamling.serve.process_runtime import ProcessRuntime
from streamling.serve.reconciler import Reconciler
from streamling.serve.shared_runtime import SharedRuntime
from streamling.serve.warm_spark import WarmSpark, start_shared_spark

if TYPE_CHECKING:
    import uvicorn


log = logging.getLogger(__name__)

#: open requests, such as those that follow a log, get this long when the server stops
_REQUEST_SECONDS = 1


class Server:
    """Runs from `start` until a `stop` is complete. `stop` may be called from any thread, the rest from one."""

    def __init__(
        self,
        config: AppConfig,
        *,
        config_name: str,
        cwd: Path,
        env: Mapping[str, str],
        debug: bool = False,
    ) -> None:
        """Check everything that needs no JVM, then start it."""
        settings = config.part(ServeConfig).serve
        access = Access.of(settings)
        self._socket = _listening(settings.listen)
        self._stopping = threading.Event()
        self._database = open_database(config)
        self._writability = Writability(self._database)
        catalogue = Catalogue(self._database)
        self._folder = None if settings.dir is None else PipelineFolder(settings.dir, catalogue)
        self.logs = LogBook()
        logging.getLogger("streamling").addHandler(self.logs)
        launchers = Launchers(config, config_name, cwd, env, SecretStore.of(config, env))
        self._spark = WarmSpark(lambda: start_shared_spark(config, debug=debug))
        self._processes = ProcessRuntime(launchers)
        self._shared = SharedRuntime(launchers, self._spark)
        self._garbage = GarbageCollection()
        self._reconciler = Reconciler(
            catalogue,
            {"shared": self._shared, "process": self._processes},
            partial(launchers.delete_state, self._spark.session),
            on_ended=self._garbage.request,
            on_removed=lambda key: self.logs.retire(str(key)),
        )
        catalogue.on_change = self._reconciler.wake
        control = ControlPlane(catalogue, self._reconciler, launchers, self.logs)
        self._api = self._create_api(control, launchers, access, settings)
        self._api_thread = threading.Thread(target=self._serve, name="api", daemon=True)
        self._has_started = False
        self._recording = ExitStack()

    @property
    def address(self) -> str:
        """Where the API listens."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Answer requests and bring all pipelines to their desired state; returns immediately."""
        _allow_many_files()
        self._garbage.start()
        self._api_thread.start()
        if self._folder is not None:
            self._folder.start()
        self._reconciler.start()
        self._recording.enter_context(recording(self._reconciler.record_rates))
        self._has_started = True
        log.info("listening on %s", self.address)

    def unready_reason(self) -> str:
        """Return why the server cannot start pipelines now; empty if it can."""
        if self._stopping.is_set():
            return "stopping"
        if not self._has_started or not self._spark.is_up():
            return "starting"
        return "" if self._writability.is_writable() else "the database of the catalogue cannot be written"

    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    def stop(self, reason: str) -> None:
        """Drain all pipelines, then stop; returns immediately."""
        if not self._stopping.is_set():
            log.info("stopping: %s", reason)
        self._stopping.set()
        if self._folder is not None:
            self._folder.stop()
        self._reconciler.stop()

    def wait(self) -> None:
        """Wait for the end of a stop and release everything."""
        self._reconciler.join()
        self._recording.close()
        self._api.should_exit = True
        self._api_thread.join(_REQUEST_SECONDS + 1)
        self._processes.close()
        self._shared.close()
        logging.getLogger("streamling").removeHandler(self.logs)
        self._database.close()

    def unfinished(self) -> list[str]:
        """Return what a stop still waits for."""
        return self._reconciler.loaded()

    def kill(self) -> None:
        """End all processes of the server without waiting, for a process that exits by force."""
        self._processes.kill()
        self._spark.kill()

    def _create_api(
        self, control: ControlPlane, launchers: Launchers, access: Access, settings: ServeSettings
    ) -> uvicorn.Server:
        # while the JVM starts: takes half a second
        from streamling.serve.admin.guard import LOOPBACK
        from streamling.serve.admin.server import create_server
        from streamling.serve.api import create_api
        from streamling.serve.guard import guarded
        from streamling.serve.previews import DefinitionPreviews
        from streamling.serve.refusals import Refusals, recording
        from streamling.serve.slow_calls import SlowCalls

        previews = DefinitionPreviews(control, launchers, self._processes)
        hosts = frozenset((*LOOPBACK, _name(settings.listen), *(host.lower() for host in settings.hosts)))
        slow = SlowCalls(settings.concurrent_slow_requests)
        api = create_api(control, previews, self.unready_reason, self.is_stopping, slow)
        refusals = Refusals(control.catalogue.audit, partial(_is_namespace, control.catalogue, access))
        return create_server(recording(guarded(api, access, RateLimit(settings), hosts), refusals))

    def _serve(self) -> None:
        try:
            self._api.run(sockets=[self._socket])
        except Exception:
            log.exception("the API failed; pipelines continue")


def _listening(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host.strip("[]"), int(port)))
        listening.listen(128)
    except (OSError, OverflowError) as error:
        listening.close()
        raise StreamlingError.user(
            f"the API cannot listen on {address}: {getattr(error, 'strerror', None) or error}",
            remedy="choose another address with --listen or serve.listen",
        ) from None
    if not is_loopback(host):
        log.warning("the API listens on %s without TLS: put a proxy with TLS in front of it", address)
    return listening


def _is_namespace(catalogue: Catalogue, access: Access, name: str) -> bool:
    """Return whether there is a namespace: it has a pipeline, or a token of its own."""
    return any(key.namespace == name for key in catalogue.records()) or name in access.namespaces


def _name(listen: str) -> str:
    return listen.rpartition(":")[0].lower()


def _allow_many_files() -> None:
    """Raise the limit on open files. Each pipeline has a few open files and connections; the usual soft limit of 1024
    is reached by 200 of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# ── whether the catalogue can be written ─────────────────────────────────────────────────────────────────────────

#: A result holds for this long: probes need no token, and must not make the database work all the time.
_FRESH_SECONDS = 5.0
#: a write that takes longer counts as impossible
_WRITE_SECONDS = 1.0


class Writability:
    """Writes to the database at most every few seconds. May be asked from any thread."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._was_writable = True
        self._checked_at = -_FRESH_SECONDS
        self._ended = threading.Event()
        self._ended.set()

    def is_writable(self) -> bool:
        """Return whether the last write succeeded. Waits a second at most, and only one thread at a time."""
        with self._lock:
            is_due = self._ended.is_set() and time.monotonic() - self._checked_at >= _FRESH_SECONDS
            if is_due:
                self._checked_at = time.monotonic()
                self._ended.clear()
                threading.Thread(target=self._check, name="check database", daemon=True).start()
        if is_due:
            self._ended.wait(_WRITE_SECONDS)
        is_late = not self._ended.is_set() and time.monotonic() - self._checked_at >= _WRITE_SECONDS
        return self._was_writable and not is_late

    def _check(self) -> None:
        try:
            self._database.check_writable()
        except StreamlingError as error:
            if self._was_writable:
                log.warning("the server is not ready: %s", error.with_causes)
            self._was_writable = False
        else:
            self._was_writable = True
        finally:
            self._ended.set()
