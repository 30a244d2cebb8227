"""Files of this process that no pipeline reads: keys, tokens, state, configuration, and what the system shows as files.

Whoever may create pipelines on a server chooses their paths. Which other folders a definition may read is up to the
user that the server runs as; roots per namespace belong here, beside `OwnFiles.is_own`.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from streamling.connectors.file.storage import EXTENSIONS, is_data_file
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.config.section import Section
from streamling.pipeline.secrets.store import default_key_file

#: processes, devices, and secrets that containers get as files
_SYSTEM = ("/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets")
#: shared memory is an ordinary folder, although it is below /dev
_ORDINARY = "/dev/shm/"
#: where clients in this process find credentials
_VARIABLES = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("GOOGLE_APPLICATION_CREDENTIALS", "KRB5CCNAME", "KUBECONFIG", "PGPASSFILE"),
)
_HOME = (".aws", ".config/gcloud", ".kube", ".pgpass", ".postgresql")
#: temporary folders of runs, with rows of their pipelines
_SCRATCH = ("streamling-spark-", "streamling-preview-")


@dataclass(frozen=True)
class OwnFiles:
    """All paths are real ones, without links. Sent to executors with the storage."""

    #: files, and folders with everything below
    denied: tuple[str, ...] = ()
    #: folders in which only data files may be read: pipeline files and plugins are in them
    data_only: tuple[str, ...] = ()
    #: whether errors must not say what exists: the definition is from a user who may not see the disk of the server
    hides_others: bool = False

    @classmethod
    def of(cls, config: AppConfig, env: Mapping[str, str]) -> OwnFiles:
        """Return every path among the settings, also of settings that are added later."""
        settings = list(_paths(config))
        folders = [path for path in settings if os.path.isdir(path) and path != config.cache_dir]
        named = [*settings, default_key_file(env).parent]
        if config.config_file is not None:
            named.append(config.config_file)
        named += [Path(env[name].removeprefix("FILE:")) for name in _VARIABLES if env.get(name)]
        named += [Path(env.get("HOME") or Path.home(), name) for name in _HOME]
        denied = [str(path) for path in named if path not in folders]
        data_only = tuple(os.path.realpath(folder) for folder in folders)
        denied_paths = tuple(sorted({os.path.realpath(path) for path in (*denied, *_SYSTEM)}))
        return cls(denied_paths, data_only, hides_others=config.is_for_stranger)

    def check(self, path: str, real: str, stat: os.stat_result | None = None) -> None:
        """Raise if the file at ``path``, whose real path and status these are, is one of them."""
        if self.is_own(real, stat):
            if self.hides_others:
                raise self.nothing_to_read(path).about("path")
            raise StreamlingError.user(
                f"'{path}' belongs to the system or to this installation of Streamling: pipelines do not read it",
                remedy="use a folder that contains only data",
            ).about("path")

    def is_own(self, real: str, stat: os.stat_result | None = None) -> bool:
        if real in self._denied or (real.startswith(self._prefixes) and not real.startswith(_ORDINARY)):
            return True
        if real.startswith(self._scratch):
            return True
        if real.startswith(self._data_only) and not (_is_data(real) or os.path.isdir(real)):
            return True
        # the same file under another name, or one whose path was changed while it was opened
        return stat is not None and (stat.st_dev in self._devices or (stat.st_dev, stat.st_ino) in self._identities)

    def nothing_to_read(self, path: str) -> StreamlingError:
        """Return the error if `hides_others`: the same for a path that is missing, empty, unreadable or forbidden."""
        return StreamlingError.user(
            f"there is nothing to read at '{path}': it does not exist, has no data files with content, or pipelines do "
            "not read it",
            remedy="check the path; on the machine of the server, streamling validate says more",
        )

    @cached_property
    def _denied(self) -> frozenset[str]:
        return frozenset(self.denied)

    @cached_property
    def _prefixes(self) -> tuple[str, ...]:
        """Below a folder; and beside a file: its journal, locks and temporary copies."""
        return tuple(f"{path}{end}" for path in self.denied for end in ("/", "-", "."))

    @cached_property
    def _data_only(self) -> tuple[str, ...]:
        return tuple(f"{path}/" for path in self.data_only)

    @cached_property
    def _scratch(self) -> tuple[str, ...]:
        return tuple(os.path.join(os.path.realpath(tempfile.gettempdir()), prefix) for prefix in _SCRATCH)

    @cached_property
    def _devices(self) -> frozenset[int]:
        return frozenset(os.stat(path).st_dev for path in _SYSTEM[:3] if os.path.ismount(path))

    @property
    def _identities(self) -> frozenset[tuple[int, int]]:
        """Looked up each time: these files are replaced while the process runs."""
        found = (os.stat(path) for path in self.denied if os.path.isfile(path))
        return frozenset((each.st_dev, each.st_ino) for each in found)


def _paths(section: Section) -> Iterator[Path]:
    for value in (getattr(section, name) for name in type(section).model_fields):
        for each in value.values() if isinstance(value, dict) else (value,):
            if isinstance(each, Path):
                yield each
            elif isinstance(each, Section):
                yield from _paths(each)


def _is_data(path: str) -> bool:
    return any(is_data_file(os.path.basename(path), format) for format in EXTENSIONS)
