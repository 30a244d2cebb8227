"""Keeps the catalogue equal to a folder of pipeline files: add, change or remove a file and the pipeline follows."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.document.loader import load_yaml
from streamling.redaction import redact
from streamling.serve.catalogue import Actor, Catalogue
from streamling.serve.errors import Refused
from streamling.serve.model import DEFAULT_NAMESPACE, Isolation, PipelineBody, PipelineKey, Size

log = logging.getLogger(__name__)

#: seconds between two looks at the folder
_SCAN_SECONDS = 1.0
_ENDINGS = (".yaml", ".yml")
_ACTOR = Actor("folder", "dir")


@dataclass(frozen=True)
class _File:
    """A pipeline file, or why it cannot be used."""

    pipeline: PipelineBody
    problem: str | None = None


class PipelineFolder:
    """Looks at a folder from time to time."""

    def __init__(self, folder: Path, catalogue: Catalogue) -> None:
        if not folder.is_dir():
            raise StreamlingError.user(f"the folder of pipeline files {folder} does not exist", remedy="create it")
        self._folder = folder
        self._catalogue = catalogue
        self._seen: dict[Path, tuple[int, int, int]] | None = None
        #: why files are not used yet, by pipeline
        self._refused: dict[PipelineKey, str] = {}
        #: why the files of pipelines cannot be used
        self._problems: dict[PipelineKey, str] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pipeline folder", daemon=True)

    def start(self) -> None:
        """Apply the folder now, and from now on when it changes."""
        self.apply()
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()

    def apply(self) -> None:
        """Bring the catalogue to the content of the folder, if a file has changed since the last time."""
        found = {path: _identity(path) for path in self._paths()}
        if found == self._seen:
            return
        files = dict(_read(sorted(found)))
        self._refused = {key: reason for key, reason in self._refused.items() if key in files}
        for key, file in files.items():
            self._put(key, file)
            if file.problem is not None and self._problems.get(key) != file.problem:
                log.error("a file of %s cannot be used: %s", self._folder, file.problem)
        self._problems = {key: file.problem for key, file in files.items() if file.problem is not None}
        for key, record in self._catalogue.records().items():
            if record.managed_by == "dir" and record.deleting is None and key not in files:
                log.info("the file of '%s' was removed: the pipeline is deleted, its state is kept", key)
                self._catalogue.delete(key, "keep", _ACTOR)
        self._seen = None if self._refused else found

    def _paths(self) -> Iterator[Path]:
        for path in self._folder.iterdir():
            if path.suffix in _ENDINGS and not path.name.startswith("."):
                yield path

    def _put(self, key: PipelineKey, file: _File) -> None:
        try:
            self._catalogue.put(key, file.pipeline, _ACTOR, problem=file.problem)
            self._refused.pop(key, None)
        except Refused as refused:  # the name is used by a pipeline of the API, or its last one is being deleted
            if self._refused.get(key) != str(refused):
                log.warning("a file of %s is not used yet: %s", self._folder, refused)
            self._refused[key] = str(refused)

    def _run(self) -> None:
        while not self._stopped.wait(_SCAN_SECONDS):
            try:
                self.apply()
            except (OSError, StreamlingError) as error:
                log.warning(
                    "the folder %s cannot be applied, its pipelines continue as they are: %s", self._folder, error
                )
            except Exception:
                log.exception("the folder %s cannot be applied", self._folder)


def _identity(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return 0, 0, 0
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def _read(paths: list[Path]) -> Iterator[tuple[PipelineKey, _File]]:
    by_key: dict[PipelineKey, Path] = {}
    for path in paths:
        key = PipelineKey(DEFAULT_NAMESPACE, _name_of(path))
        if key in by_key:
            problem = (
                f"the files {by_key[key].name} and {path.name} have the same name '{key.name}'; rename one of them"
            )
            yield key, _File(PipelineBody(definition=""), problem)
        else:
            by_key[key] = path
            yield key, _file(path)


def _name_of(path: Path) -> str:
    """Return the name of the pipeline in a file.

    >>> _name_of(Path("Orders (EU).yaml"))
    'orders-eu'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", path.stem.lower()).strip("._-")[:128] or "pipeline"


def _file(path: Path) -> _File:
    """Read a file. The text is checked only as far as the options of the server are concerned: the start reports the
    rest."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return _File(PipelineBody(definition=""), f"the file {path.name} cannot be read: {error}")
    try:
        data = load_yaml(text, path.name).data
    except InvalidPipeline as error:
        return _File(PipelineBody(definition=text), redact(str(error)))
    options = data if isinstance(data, dict) else {}
    size, isolation = _option(options, "resource_size", Size, "m"), _option(options, "isolation", Isolation, "shared")
    if size is None or isolation is None:
        allowed = f"resource_size: {', '.join(get_args(Size))}; isolation: {', '.join(get_args(Isolation))}"
        problem = f"{path.name}: resource_size or isolation has an unknown value, expected {allowed}"
        return _File(PipelineBody(definition=text), problem)
    return _File(PipelineBody(definition=text, size=size, isolation=isolation))


def _option(options: dict[str, Any], name: str, allowed: Any, default: str) -> Any:
    """Return the value of a top-level key; None if it is not allowed."""
    value = options.get(name, default)
    return value if value in get_args(allowed) else None
