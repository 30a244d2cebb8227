"""Which runs on this machine have an admin API: one small file per process in the cache folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = "runs"


@dataclass(frozen=True)
class RunningPipeline:
    """A run and the address of its admin API."""

    pid: int
    url: str
    #: absolute path of the pipeline file
    file: str
    application_id: str


@contextmanager
def registered(cache_dir: Path, *, url: str, file: str, application_id: str) -> Iterator[None]:
    """Let the run of this process be found while the block runs."""
    folder, run = cache_dir / _FOLDER, RunningPipeline(os.getpid(), url, os.path.abspath(file), application_id)
    entry = folder / f"{run.pid}-{url.rpartition(':')[2]}.json"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        entry.write_text(json.dumps(asdict(run)))
    try:
        yield
    finally:
        with suppress(OSError):
            entry.unlink()


def running_pipelines(cache_dir: Path) -> list[RunningPipeline]:
    """Return the runs whose processes exist; entries of others are removed."""
    found = []
    for entry in sorted((cache_dir / _FOLDER).glob("*.json")):
        try:
            run = RunningPipeline(**json.loads(entry.read_text()))
        except (OSError, ValueError, TypeError):
            continue
        if _exists(run.pid):
            found.append(run)
        else:
            with suppress(OSError):
                entry.unlink()
    return found


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
