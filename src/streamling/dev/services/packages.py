"""The programs of the local services: downloaded once, checked against a lock file, kept in the cache."""

from __future__ import annotations

import json
import os
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamling.periodic import run_periodically
from streamling.pipeline.config.core import default_cache_dir
from streamling.spark.jvm.ivy import Artifact, ReportProgress, download
from streamling.spark.jvm.java import Java, find_java

LOCK_FILE = Path(__file__).parent / "services.lock.json"
_REMEDY = "check the network, or set spark.jars.ivySettings in spark.conf to the Ivy settings of your mirror"
_WATCH_SECONDS = 0.3


@dataclass(frozen=True)
class Packages:
    """Where programs are kept, and how to download missing ones."""

    cache_dir: Path
    java: Java
    #: the user's own Ivy settings file, for a mirror
    ivy_settings: Path | None = None
    #: for services that live for minutes: no optimizing compiler, which takes a third of the CPU time of a start
    short_lived: bool = False

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Packages:
        """Return the user's cache folder and Java."""
        return cls(default_cache_dir(environ), find_java(environ))

    def folder(self, service: str, progress: ReportProgress = lambda doing, done: None) -> Path:
        """Return the folder with the files of ``service``, downloaded if it is missing."""
        locked = json.loads(LOCK_FILE.read_text(encoding="utf-8"))[service]
        home = self.cache_dir / "services" / f"{service}-{locked['version']}"
        if not home.is_dir():
            self._fetch(service, [Artifact(**file) for file in locked["files"]], home, progress)
        return home

    def java_command(self, *, heap_mb: int, quick: bool = False) -> list[str]:
        """Return the first words of a Java command; ``quick`` trades peak throughput for a cheaper start."""
        # Serial: the least memory, and G1 corrupts data on Java 25 before 25.0.3
        line = [str(self.java.executable), "-Xms32m", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
        if quick or self.short_lived:
            line.append("-XX:TieredStopAtLevel=1")
        return [*line, "-XX:+ExitOnOutOfMemoryError"]

    def _fetch(self, service: str, artifacts: list[Artifact], home: Path, progress: ReportProgress) -> None:
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=home.parent) as new:
            loaded, kept = Path(new, "loaded"), Path(new, "kept")
            loaded.mkdir()
            kept.mkdir()
            with _watched(loaded / "ivy", service, sum(file.size for file in artifacts), progress):
                download(artifacts, loaded, what="file", remedy=_REMEDY, java=self.java, settings=self.ivy_settings)
            for artifact in artifacts:
                _keep(loaded / artifact.file_name, kept)
            try:
                kept.rename(home)
            except OSError:
                if not home.is_dir():  # otherwise another process was faster
                    raise


def default_packages() -> Packages:
    return Packages.of(os.environ)


def _keep(file: Path, folder: Path) -> None:
    if file.name.endswith(".tar.gz"):
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="data")
    else:
        file.rename(folder / file.name)


@contextmanager
def _watched(folder: Path, service: str, size: int, progress: ReportProgress) -> Iterator[None]:
    """Report how much of ``size`` bytes is in ``folder``: Ivy itself reports only complete files."""

    def watch() -> None:
        share = min(1.0, _bytes_below(folder) / size)
        # steps of ten: without a terminal, each text becomes a line
        progress(f"downloading {service}: {int(share * 10) * 10} % of {size / 1e6:.0f} MB", share)

    with run_periodically(watch, _WATCH_SECONDS, name=f"fetch-{service}"):
        yield


def _bytes_below(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:
            continue  # renamed in the meantime
    return total
