"""Spark packages that do not come with PySpark: downloaded once, checked against a lock file, kept in the cache.

They are on the class path of every JVM, part of the start-up archive, and sent to executors.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from logging import getLogger
from pathlib import Path
from typing import Any

from streamling.builtins import Builtin, builtins
from streamling.errors import StreamlingError
from streamling.spark.jvm.ivy import Artifact, ReportProgress, download, sha256
from streamling.spark.jvm.java import Java

_log = getLogger("streamling.connectors")

_REMEDY = "check the network, or set spark.jars.ivySettings in spark.conf to the Ivy settings of your mirror"


def locked_jars(spark_packages: Iterable[str]) -> list[Artifact]:
    """Return the jars of these packages, in a fixed order."""
    lock = locked_packages()
    unknown = sorted(set(spark_packages) - set(lock))
    if unknown:
        raise StreamlingError(f"there is no Spark connector {unknown[0]!r}, expected one of {', '.join(lock)}")
    return [Artifact(**entry) for name in sorted(spark_packages) for entry in lock[name]]


def known_spark_packages() -> list[str]:
    """Return the names of all packages that can be downloaded."""
    return list(locked_packages())


@cache
def locked_packages() -> dict[str, list[dict[str, Any]]]:
    """Return the jars of all packages, by package."""
    locks = (_lock_of(builtin) for builtin in builtins())
    return {name: lock[name] for lock in locks for name in lock}


def _lock_of(builtin: Builtin) -> dict[str, list[dict[str, Any]]]:
    lock = json.loads(builtin.file(builtin.jars).read_text(encoding="utf-8")) if builtin.jars else {}
    return dict(sorted(lock.items()))


def fetched_spark_packages(cache_dir: Path) -> frozenset[str]:
    """Return packages whose jars are in the cache. Every JVM gets them, needed or not: so one start-up archive is valid
    for all pipelines, and the JVM can start before the pipeline file is parsed."""
    named = {name: spark_package_jars(cache_dir, frozenset({name})) for name in known_spark_packages()}
    return frozenset(name for name, jars in named.items() if all(jar.is_file() for jar in jars))


def spark_package_jars(cache_dir: Path, spark_packages: frozenset[str]) -> list[Path]:
    """Return the paths of the jars of these packages, downloaded or not."""
    return [_folder(cache_dir) / jar.file_name for jar in locked_jars(spark_packages)] if spark_packages else []


def _folder(cache_dir: Path) -> Path:
    return cache_dir / "connectors"


def damaged_jars(cache_dir: Path, spark_packages: frozenset[str]) -> list[Path]:
    """Return jars in the cache whose content differs from the lock file."""
    jars = zip(spark_package_jars(cache_dir, spark_packages), locked_jars(spark_packages), strict=True)
    return [path for path, jar in jars if path.is_file() and sha256(path) != jar.sha256]


def fetch_spark_packages(
    cache_dir: Path,
    spark_packages: frozenset[str],
    *,
    java: Java,
    ivy_settings: Path | None = None,
    progress: ReportProgress = lambda doing, done: None,
) -> list[Path]:
    """Return the jars of these packages; those missing in the cache are downloaded.

    ``ivy_settings`` is the user's own Ivy settings file, for a mirror or a company's repository.
    """
    artifacts = locked_jars(spark_packages)
    return fetch_artifacts(artifacts, _folder(cache_dir), java=java, ivy_settings=ivy_settings, progress=progress)


def fetch_artifacts(
    artifacts: Sequence[Artifact],
    folder: Path,
    *,
    java: Java,
    what: str = "Spark connector",
    ivy_settings: Path | None = None,
    progress: ReportProgress = lambda doing, done: None,
) -> list[Path]:
    """Return the files of ``artifacts`` in ``folder``; missing ones are downloaded by the Ivy inside Spark."""
    missing = [artifact for artifact in artifacts if not (folder / artifact.file_name).is_file()]
    if missing:
        _log.info("downloading %s; this happens once", ", ".join(artifact.file_name for artifact in missing))
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            progress("downloading the Spark connectors", 0.0)
            download(
                missing,
                Path(new),
                what=what,
                remedy=_REMEDY,
                java=java,
                settings=ivy_settings,
                progress=progress,
            )
            for artifact in missing:
                (Path(new) / artifact.file_name).replace(folder / artifact.file_name)
    return [folder / artifact.file_name for artifact in artifacts]
