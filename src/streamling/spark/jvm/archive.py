"""The start-up archive: Spark's classes in the JVM's memory format, so that it does not have to load them again.

Java 25 writes an AOT cache, 17 and 21 a class-data archive; with it the first row arrives in a third of the time. An
archive is valid for one Java, one class path and one set of flags, so it is named after them. A missing or invalid one
costs time, never correctness: the JVM checks it and continues without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from streamling.errors import StreamlingError
from streamling.spark.jvm.class_path import OWN_JAR, PATH_SETTINGS, class_path
from streamling.spark.jvm.command import JvmCommand, jvm_command
from streamling.spark.jvm.jars import fetched_spark_packages, spark_package_jars
from streamling.spark.jvm.java import find_java

#: called with the current step and the completed fraction, 0 to 1
ReportProgress = Callable[[str, float], None]

#: 200 MB each: with and without Spark packages for two versions
_KEPT = 4
#: the training job determines which classes are in the archive
_TRAINING = tuple(sorted(Path(__file__).parents[2].glob("dev/training/*.py")))


@dataclass(frozen=True)
class Archive:
    """The archive for a command, whether it exists or not."""

    path: Path
    aot: bool

    @classmethod
    def of(cls, command: JvmCommand, cache_dir: Path) -> Archive:
        aot = command.java.major >= 25
        name = f"java{command.java.major}-{_key(command)}.{'aot' if aot else 'jsa'}"
        return cls(cache_dir / "archives" / name, aot)

    @classmethod
    def for_settings(
        cls,
        *,
        cache_dir: Path,
        conf: Mapping[str, str] | None = None,
        spark_packages: frozenset[str] = frozenset(),
        environ: Mapping[str, str] | None = None,
    ) -> Archive:
        """Return the archive that a start with these settings would use."""
        java = find_java(os.environ if environ is None else environ)
        jars = spark_package_jars(cache_dir, spark_packages | fetched_spark_packages(cache_dir))
        return cls.of(jvm_command(java, conf or {}, class_path(conf or {}, jars)), cache_dir)

    def exists(self) -> bool:
        return self.path.is_file()

    def failure(self) -> str | None:
        """Return why an earlier build failed; it is not retried automatically."""
        try:
            return self._failed.read_text(encoding="utf-8")
        except OSError:
            return None

    def use(self) -> list[str]:
        """Return flags that make a JVM use it; empty if it does not exist."""
        if not self.exists():
            return []
        os.utime(self.path)  # the least recently used are deleted first
        # Otherwise the JVM prints to stdout if the archive is invalid.
        return [f"-XX:{'AOTCache' if self.aot else 'SharedArchiveFile'}={self.path}", "-Xlog:disable"]

    def record(self) -> list[str]:
        """Return flags that make a JVM write it on exit."""
        return [f"-XX:{'AOTCacheOutput' if self.aot else 'ArchiveClassesAtExit'}={self._unfinished}"]

    def prepare(self) -> None:
        """Prepare for a build and remove leftovers of an earlier one."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._failed.unlink(missing_ok=True)
        for leftover in self.path.parent.glob(f"{self._unfinished.name}*"):
            leftover.unlink(missing_ok=True)

    def publish(self) -> bool:
        """Put a finished build in place atomically and delete archives that have not been used for long; False if there
        is no build."""
        try:
            self._unfinished.rename(self.path)
        except FileNotFoundError:
            return False
        kept = sorted(self.path.parent.glob("java*-*.[aj]*"), key=lambda path: path.stat().st_mtime, reverse=True)
        for old in kept[_KEPT:]:
            old.unlink(missing_ok=True)
        return True

    def record_failure(self, reason: str) -> None:
        """Record that it cannot be built, so that not every run tries again."""
        self.prepare()
        self._failed.write_text(reason, encoding="utf-8")

    @contextmanager
    def build_lock(self, on_wait: Callable[[], None] | None = None) -> Iterator[bool]:
        """Hold the build lock. If another process holds it, yields False, or with ``on_wait`` calls that and waits."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.with_suffix(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if on_wait is None:
                    yield False
                    return
                on_wait()
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield True

    @property
    def _unfinished(self) -> Path:
        return self.path.with_name(f"new-{self.path.name}")

    @property
    def _failed(self) -> Path:
        return self.path.with_suffix(".failed")


def build_archive(
    *,
    cache_dir: Path,
    conf: Mapping[str, str] | None = None,
    spark_packages: frozenset[str] = frozenset(),
    progress: ReportProgress = lambda doing, done: None,
) -> Path:
    """Build the archive for these settings in a separate process and wait for it. Replaces an existing one."""
    order = _order(cache_dir, conf, spark_packages)
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "streamling.dev.training.job", order],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cache_dir,  # Java writes the archive in a second process, which fails without a working directory
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            built: Path | None = None
            for line in process.stdout:
                report = json.loads(line)
                if "archive" in report:
                    built = Path(report["archive"])
                else:
                    progress(report["doing"], report["done"])
            words = process.stderr.read().strip()
        except BaseException:
            process.kill()
            raise
    if built is None:
        raise StreamlingError(
            f"the start-up archive could not be built: {words or 'the build ended early'}",
            remedy="pipelines run without it, but start more slowly",
        )
    return built


def build_in_background(
    *, cache_dir: Path, conf: Mapping[str, str] | None = None, spark_packages: frozenset[str] = frozenset()
) -> None:
    """Start the build in a detached process with low priority and return."""
    log = cache_dir / "logs" / "archive.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "streamling.dev.training.job",
                "--background",
                _order(cache_dir, conf, spark_packages),
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=cache_dir,
            start_new_session=True,
        )
    process.returncode = 0  # it outlives this process by design: no warning about an unawaited child


def _order(cache_dir: Path, conf: Mapping[str, str] | None, spark_packages: frozenset[str]) -> str:
    """Return what to build, as one argument; only the relevant settings, so that no secret shows in a process list."""
    chosen = {key: value for key, value in (conf or {}).items() if key in PATH_SETTINGS}
    return json.dumps({"cache_dir": str(cache_dir), "conf": chosen, "spark_packages": sorted(spark_packages)})


def _key(command: JvmCommand) -> str:
    digest = hashlib.sha256()
    for path in (command.java.home / "release", command.java.executable, *command.class_path):
        try:
            stat = path.stat()
            digest.update(f"{path}|{stat.st_size}|{stat.st_mtime_ns}\n".encode())
        except OSError:
            digest.update(f"{path}|missing\n".encode())
    digest.update("\n".join((command.java.version, *command.flags)).encode())
    for file in (OWN_JAR, *_TRAINING):  # an installer may give both of two builds of the jar the same time
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
