"""Our own Java classes in Spark's JVM: their sources are in the connectors, PySpark's Janino compiles them once.

This needs no JDK and no binary jar in the repository. The jar is named after the sources and Spark's version, so an
upgrade of either compiles again: 1 s of CPU time, when the Spark packages are downloaded.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from streamling.builtins import builtins
from streamling.errors import StreamlingError
from streamling.spark.jvm.class_path import OWN_CLASSES, spark_home, spark_jars
from streamling.spark.jvm.environment import needed_variables
from streamling.spark.jvm.java import Java

_COMPILER = "org.codehaus.commons.compiler.samples.CompilerDemo"
_COMPILE_SECONDS = 120
#: Timestamp of the jar and its entries: a start-up archive depends on it, and must stay valid for a recompiled jar.
_WRITTEN = (2020, 1, 1, 0, 0, 0)
_WRITTEN_NS = 1_577_836_800 * 10**9


def classes_jar(folder: Path, sources: Sequence[Path] | None = None) -> Path:
    """The path of the jar with the classes of ``sources``, compiled or not; None means all of our own."""
    return folder / f"{OWN_CLASSES}-{_key(_own_sources() if sources is None else sources)}.jar"


def compile_classes(
    folder: Path, java: Java, sources: Sequence[Path] | None = None, *, class_path: Sequence[Path] = ()
) -> Path:
    """The jar with the classes; compiled if it is missing. ``class_path`` are jars that they need besides Spark's."""
    sources = _own_sources() if sources is None else sources
    jar = classes_jar(folder, sources)
    if not jar.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as new:
            classes, unfinished = Path(new) / "classes", Path(new) / jar.name
            classes.mkdir()
            _compile(sources, classes, java, class_path)
            _pack(classes, unfinished)
            unfinished.replace(jar)
    return jar


def _compile(sources: Sequence[Path], classes: Path, java: Java, class_path: Sequence[Path]) -> None:
    jars = spark_jars(spark_home())
    janino = [jar for jar in jars if jar.name.startswith(("janino-", "commons-compiler-"))]
    line = [str(java.executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    line += ["-cp", os.pathsep.join(map(str, janino)), _COMPILER, "-g", "-encoding", "UTF-8", "-d", str(classes)]
    line += ["-classpath", os.pathsep.join(map(str, [*jars, *class_path])), *map(str, sources)]
    try:
        done = subprocess.run(
            line,
            env=needed_variables(os.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_COMPILE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _failure(error) from error
    if len([*classes.rglob("*.class")]) < len(sources):  # the exit status is always 0
        raise _failure(RuntimeError(done.stdout.decode(errors="replace").strip()[-500:]))


def _failure(cause: Exception) -> StreamlingError:
    return StreamlingError(
        "streamling's Java classes could not be compiled",
        cause=cause,
        remedy="run streamling doctor; if Java is fine, reinstall streamling",
    )


def _pack(classes: Path, jar: Path) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(classes.rglob("*.class")):
            entry = zipfile.ZipInfo(file.relative_to(classes).as_posix(), _WRITTEN)
            archive.writestr(entry, file.read_bytes())
    os.utime(jar, ns=(_WRITTEN_NS, _WRITTEN_NS))


def _own_sources() -> list[Path]:
    folders = [builtin.file(builtin.java) for builtin in builtins() if builtin.java]
    return [source for folder in folders for source in sorted(folder.rglob("*.java"))]


def _key(sources: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for source in sources:
        digest.update(source.read_bytes())
    for jar in (spark_home() / "jars").glob("spark-catalyst_*.jar"):
        digest.update(jar.name.encode())
    return digest.hexdigest()[:16]
