"""A server process on this machine that outlives the process that started it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from streamling.dev.services.extra import require
from streamling.errors import StreamlingError

HOST: Final = "127.0.0.1"

# Below the range from which systems assign ports to clients: otherwise a client that keeps trying to reach a stopped
# service would eventually be assigned the service's own port and block its restart.
_PORTS: Final = range(15_000, 30_000)


class LocalService(ABC):
    """One server on 127.0.0.1 with all its files in ``folder``; when it is started again in the same folder, it has the
    same data and ports.

    The process id is stored in the folder, so that any later object for the same folder can find, stop or kill it.
    """

    #: name of the service in commands and file names
    name: ClassVar[str]
    #: name of the service in messages
    title: ClassVar[str]
    #: Python modules of the extra `dev` that it requires
    modules: ClassVar[tuple[str, ...]] = ("psutil",)
    _stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    _start_seconds: ClassVar[float] = 90.0
    stop_seconds: ClassVar[float] = 30.0

    def __init__(self, folder: Path, ports: Mapping[str, int]) -> None:
        """``ports`` by name; 0 means any free port, the same as last time if possible."""
        self.folder = folder.absolute()
        self.log = self.folder / f"{self.name}.log"
        self._record = self.folder / "service.json"
        self._wanted = dict(ports)
        self._child: subprocess.Popen[bytes] | None = None

    # ── properties ────────────────────────────────────────────────────────────────────────────────

    @property
    @abstractmethod
    def address(self) -> str:
        """The address for clients."""

    @abstractmethod
    def variables(self) -> dict[str, str]:
        """Return the environment variables that make Streamling use it."""

    @property
    def port(self) -> int:
        """Port of the main listener; 0 before the first start, unless one was chosen."""
        return self._port("main")

    @property
    def pid(self) -> int | None:
        process = self._process()
        return process.pid if process else None

    @property
    def running(self) -> bool:
        return self._process() is not None

    @property
    def memory(self) -> int:
        """Bytes of memory used by all its processes."""
        total = 0
        for process in self._process_tree():
            with contextlib.suppress(require("psutil").Error):
                info = process.memory_full_info()
                total += getattr(info, "pss", info.rss)  # counts shared pages once if the system supports it
        return total

    # ── operations ────────────────────────────────────────────────────────────────────────────────

    def start(self) -> None:
        """Start the service, with new data if the folder is empty; returns when it responds."""
        if self.running:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        ports = self._choose_ports()
        self._write_record(ports)
        self._prepare()
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for this process, which decides when the server stops
                **self._process_options(),
            )
        created = require("psutil").Process(self._child.pid).create_time()
        self._write_record(ports, pid=self._child.pid, created=created)
        try:
            self._wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Close all connections and stop the service. Does nothing if it is not running."""
        process = self._process()
        if process is None:
            return
        psutil = require("psutil")
        try:
            process.send_signal(self._stop_signal)
            process.wait(self.stop_seconds)
        except psutil.NoSuchProcess:
            pass
        except psutil.TimeoutExpired:
            self.kill()
        self._forget()

    def kill(self) -> None:
        """Kill the service like a crash, without clean-up. Does nothing if it is not running."""
        family = self._process_tree()
        if not family:
            return
        psutil = require("psutil")
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(family, timeout=self.stop_seconds)
        self._forget()

    def delete(self) -> None:
        """Stop the service and delete all its data."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ── defined by each service ──────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _prepare(self) -> None:
        """Prepare a start; ports are known. Called before every start."""

    @abstractmethod
    def _command(self) -> list[str]: ...

    @abstractmethod
    def _is_ready(self) -> bool:
        """Return whether a request is answered now; takes a second at most."""

    def _process_options(self) -> dict[str, Any]:
        return {"cwd": self.folder}

    # ── the process ─────────────────────────────────────────────────────────────────────────────────────────

    def _process(self) -> Any | None:
        """Return the running process with the stored id; not another one that got the same id later."""
        if self._child is not None and self._child.poll() is not None:
            self._child = None  # ended and reaped
        record = self._read_record()
        if "pid" not in record:
            return None
        psutil = require("psutil")
        try:
            process = psutil.Process(record["pid"])
            same = abs(process.create_time() - record["created"]) < 2
            return process if same and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def _process_tree(self) -> list[Any]:
        process = self._process()
        if process is None:
            return []
        try:
            return [process, *process.children(recursive=True)]
        except require("psutil").NoSuchProcess:
            return []

    def _forget(self) -> None:
        if self._child is not None:
            self._child.wait()
            self._child = None
        self._write_record(self._read_record().get("ports", {}))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self._start_seconds
        while not self._is_ready():
            ended = not self.running
            if ended or time.monotonic() > deadline:
                state = "exited immediately" if ended else f"did not respond within {self._start_seconds:.0f} s"
                raise StreamlingError(
                    f"{self.title} did not start on port {self.port}, it {state}: {self._log_tail()}",
                    remedy=f"see {self.log}",
                )
            time.sleep(0.05)

    def _log_tail(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-5:]) or "it logged nothing"

    # ── the record ──────────────────────────────────────────────────────────────────────────────────────────

    def _port(self, name: str) -> int:
        """Return a port; valid after the first start."""
        return self._wanted[name] or int(self._read_record().get("ports", {}).get(name, 0))

    def _choose_ports(self) -> dict[str, int]:
        before = self._read_record().get("ports", {})
        chosen: dict[str, int] = {}
        for name, wanted in self._wanted.items():
            if wanted and not port_is_free(wanted):
                raise StreamlingError.user(
                    f"{self.title} did not start on port {wanted}: another program listens there",
                    remedy="choose another port, or stop that program",
                )
            last = before.get(name, 0)
            chosen[name] = wanted or (last if last and port_is_free(last) else free_port(taken=chosen.values()))
        return chosen

    def _read_record(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self._record.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return {}
        return record

    def _write_record(self, ports: Mapping[str, int], **process: float) -> None:
        new = self._record.with_suffix(".new")
        new.write_text(json.dumps({**process, "ports": dict(ports)}), encoding="utf-8")
        new.replace(self._record)


def free_port(taken: Any = ()) -> int:
    """Return a port that is not in use and not in ``taken``."""
    for port in random.sample(_PORTS, 200):
        if port not in taken and port_is_free(port):
            return port
    raise StreamlingError(f"no free port between {_PORTS.start} and {_PORTS.stop} on {HOST}")


def port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        # like servers: closing connections of the last run do not count
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """Return whether something listens on ``port``."""
    try:
        socket.create_connection((HOST, port), timeout=1).close()
    except OSError:
        return False
    return True
