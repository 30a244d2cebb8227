"""Checks what a pipeline needs on this machine: what exists, what is missing, how to fix it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

from streamling.engine.run.memory import total_memory_mb
from streamling.errors import StreamlingError
from streamling.spark.jvm.archive import Archive
from streamling.spark.jvm.class_path import spark_home, spark_jars
from streamling.spark.jvm.command import heap_mb
from streamling.spark.jvm.jars import damaged_jars, known_spark_packages, spark_package_jars
from streamling.spark.jvm.java import candidates, find_java

#: ok: nothing to do. note: works, could be better. bad: pipelines will not run.
Status = Literal["ok", "note", "bad"]

_PYTHONS = ((3, 11), (3, 13))
#: Python and the JVM beside its heap
_OVERHEAD_MB = 400
#: an archive, the connectors, and room for a batch that spills
_FREE_MB = 1024
_SIGNS = {"ok": "✓", "note": "•", "bad": "✗"}


@dataclass(frozen=True)
class Check:
    """The result of one check."""

    name: str
    status: Status
    found: str
    remedy: str | None = None


def run_checks(
    *, cache_dir: Path, environ: Mapping[str, str] | None = None, conf: Mapping[str, str] | None = None
) -> list[Check]:
    """Run all checks; starts no JVM and changes nothing."""
    environ = os.environ if environ is None else environ
    conf = conf or {}
    return [
        python_check(sys.version_info[:3]),
        *_java(environ),
        _pyspark(),
        _archive(cache_dir, conf, environ),
        *(_connector(cache_dir, name) for name in known_spark_packages()),
        _cache_folder(cache_dir),
        _temporary_folder(Path(tempfile.gettempdir())),
        memory_check(total_memory_mb(), conf),
        Check("Cores", "ok", str(os.cpu_count() or 1)),
    ]


def healthy(checks: Iterable[Check]) -> bool:
    """Return whether pipelines can run."""
    return all(check.status != "bad" for check in checks)


def render(checks: Iterable[Check]) -> str:
    """Return the checks as text, one line each, remedies below."""
    checks = list(checks)
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        lines.append(f"{_SIGNS[check.status]} {check.name:<{width}}  {check.found}")
        if check.remedy:
            lines.append(f"  {'':<{width}}  → {check.remedy}")
    return "\n".join(lines)


def python_check(running: tuple[int, ...]) -> Check:
    text = f"{'.'.join(map(str, running))} at {sys.executable}"
    low, high = _PYTHONS
    if low <= running[:2] <= high:
        return Check("Python", "ok", text)
    return Check("Python", "bad", text, "use Python 3.11, 3.12 or 3.13")


def _java(environ: Mapping[str, str]) -> list[Check]:
    try:
        chosen = find_java(environ)
    except StreamlingError as error:
        return [Check("Java", "bad", str(error), error.remedy)]
    checks = [Check("Java", "ok", f"{chosen.version} from {chosen.origin}, {chosen.home}")]
    named = environ.get("JAVA_HOME")
    if named and chosen.origin != "JAVA_HOME":
        found = next((java.version for java in candidates(environ) if java.origin == "JAVA_HOME"), None)
        what = f"Java {found}" if found else "no Java"
        checks.append(
            Check(
                "JAVA_HOME", "note", f"{named} holds {what} and is not used", "set it to Java 17, 21 or 25, or unset it"
            )
        )
    return checks


def _pyspark() -> Check:
    try:
        found, jars = version("pyspark"), len(spark_jars(spark_home()))
    except (PackageNotFoundError, StreamlingError):
        return Check("PySpark", "bad", "not installed", "pip install streamling")
    if not jars:
        return Check("PySpark", "bad", f"{found} without its jars", "pip install --force-reinstall pyspark")
    return Check("PySpark", "ok", f"{found} with {jars} jars, pyarrow {version('pyarrow')}")


def _archive(cache_dir: Path, conf: Mapping[str, str], environ: Mapping[str, str]) -> Check:
    name = "Start-up archive"
    try:
        archive = Archive.for_settings(cache_dir=cache_dir, conf=conf, environ=environ)
    except StreamlingError as error:
        return Check(name, "note", f"not known: {error}")
    if archive.exists():
        return Check(name, "ok", f"{_mb(archive.path.stat().st_size)} at {archive.path}")
    now = "build it now with streamling doctor --prepare"
    failure = archive.failure()
    if failure is not None:
        reason = (failure.strip().splitlines() or ["no reason given"])[-1]
        return Check(name, "note", f"could not be built: {reason}", f"pipelines start more slowly without it; {now}")
    return Check(name, "note", "not built yet", f"it is built after the first run, or {now}")


def _connector(cache_dir: Path, name: str) -> Check:
    title = f"Connector {name}"
    missing = [jar for jar in spark_package_jars(cache_dir, frozenset({name})) if not jar.is_file()]
    if missing:
        return Check(title, "note", "not downloaded yet", "it is downloaded when a pipeline first needs it")
    damaged = damaged_jars(cache_dir, frozenset({name}))
    if damaged:
        return Check(
            title, "bad", f"{damaged[0]} is damaged", f"delete it, and it is downloaded again: rm {damaged[0]}"
        )
    return Check(title, "ok", "downloaded, checksums verified")


def _cache_folder(cache_dir: Path) -> Check:
    return _folder("Cache folder", cache_dir, "set cache_dir in config.yaml to a folder that")


def _temporary_folder(folder: Path) -> Check:
    if os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0):
        return Check(
            "Temporary folder", "bad", f"{folder} does not allow code to run, and Spark unpacks native libraries there",
            "set TMPDIR to a folder on a file system without noexec",
        )  # fmt: skip
    return _folder("Temporary folder", folder, "set TMPDIR to a folder that")


def _folder(name: str, folder: Path, remedy: str) -> Check:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return Check(name, "bad", f"{folder} is not writable", f"{remedy} you can write to")
    free = shutil.disk_usage(existing).free
    if free < _FREE_MB * 2**20:
        return Check(name, "note", f"{folder} has only {_mb(free)} left", f"{remedy} has {_FREE_MB} MB free")
    return Check(name, "ok", f"{folder}, {_mb(free)} free")


def memory_check(total_mb: int | None, conf: Mapping[str, str]) -> Check:
    try:
        needed = heap_mb(conf) + _OVERHEAD_MB
    except StreamlingError as error:
        return Check("Memory", "bad", str(error), "correct spark.conf in config.yaml")
    if total_mb is None:
        return Check("Memory", "note", f"size not known, a pipeline takes up to {needed} MB")
    text = f"{total_mb} MB, a pipeline takes up to {needed} MB"
    if total_mb < needed:
        return Check("Memory", "note", text, "lower spark.driver.memory in spark.conf")
    return Check("Memory", "ok", text)


def _mb(size: int) -> str:
    return f"{size // 2**20} MB"
