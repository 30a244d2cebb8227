"""The class path of the Spark JVM: Spark's jars without those that no pipeline uses, our own jar, Spark packages, the
user's jars.

The JVM searches every jar for missing classes, and a session loads the extensions of every jar that has some: MLlib's
alone took a fifth of the start-up time.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from streamling.errors import StreamlingError

#: settings that change the class path, and with it the archive
PATH_SETTINGS = ("spark.jars", "spark.driver.extraClassPath", "spark.sql.catalogImplementation")

#: our own classes, compiled when the package is built (``java/hatch_build.py``)
OWN_JAR: Final = Path(__file__).with_name("streamling.jar")

#: machine learning, graphs, the Spark Connect server, the shell; a plugin that needs one lists it in ``spark.jars``
_UNREACHED = re.compile(
    r"spark-(mllib|graphx|connect|pipelines|repl)|breeze|spire|cats-|algebra_|arpack|blas-|lapack-|JTransforms"
    r"|JLargeArrays|scala-compiler|jline"
)
#: used only by a Hive catalog; `hive-storage-api` belongs to ORC
_HIVE = re.compile(
    r"spark-hive|hive-(?!storage-api)|datanucleus|derby|HikariCP|javax\.jdo|jdo-api|libfb303|libthrift|jpam|json-1\.8"
)
#: The JVM does not archive classes of signed jars and checks the digest of each: 0.2 s of the first batch.
_SIGNED = re.compile(r"janino-|commons-compiler-")
_SIGNATURE = re.compile(r"META-INF/[^/]+\.(SF|DSA|RSA|EC)")
_MANIFEST = "META-INF/MANIFEST.MF"


def class_path(conf: Mapping[str, str], package_jars: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the class path. The user's jars come first, so that they take precedence; ours replace a class of Kafka's
    client (`DefaultHostResolver`)."""
    if not OWN_JAR.is_file():
        raise StreamlingError("streamling's Java classes are missing", remedy="reinstall streamling with pip")
    hive = conf.get("spark.sql.catalogImplementation") == "hive"
    spark = (
        jar
        for jar in spark_jars(spark_home())
        if not _UNREACHED.match(jar.name) and (hive or not _HIVE.match(jar.name))
    )
    return (*_extra_jars(conf), *spark, OWN_JAR, *package_jars)


def spark_home() -> Path:
    """Return the folder of the PySpark package, found without importing it."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise StreamlingError("PySpark is not installed", remedy="reinstall streamling with pip")
    return Path(spec.origin).parent


def spark_jars(home: Path) -> list[Path]:
    """Return Spark's jars in a fixed order: an archive is valid only for the exact class path."""
    return sorted((home / "jars").glob("*.jar"))


def unsigned(paths: Iterable[Path], cache_dir: Path) -> tuple[Path, ...]:
    """Return the same class path with unsigned copies of the signed jars, which are created if they are missing."""
    return tuple(_copy(path, cache_dir / "jars") if _SIGNED.match(path.name) else path for path in paths)


def _copy(jar: Path, folder: Path) -> Path:
    copy = folder / jar.name
    if not copy.exists():
        folder.mkdir(parents=True, exist_ok=True)
        _strip(jar, copy)
    return copy


def _strip(jar: Path, copy: Path) -> None:
    """Copy all but the signature; size and time, which an archive depends on, are the same for every copy."""
    import shutil
    import tempfile
    import zipfile

    with tempfile.TemporaryDirectory(dir=copy.parent) as folder:
        unfinished = Path(folder) / jar.name
        with zipfile.ZipFile(jar) as signed, zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as plain:
            for entry in signed.infolist():
                if not _SIGNATURE.fullmatch(entry.filename):
                    plain.writestr(entry, _without_digests(entry.filename, signed.read(entry)))
        shutil.copystat(jar, unfinished)
        unfinished.replace(copy)


def _without_digests(name: str, content: bytes) -> bytes:
    """Return a manifest with only its first section, which describes the jar; the others hold a digest per file."""
    return re.split(rb"(?<=\n)\r?\n", content)[0] + b"\r\n" if name == _MANIFEST else content


def _extra_jars(conf: Mapping[str, str]) -> list[Path]:
    """Return the jars that the user lists; spark-submit would have put them on the driver's class path."""
    listed = [path for path in conf.get("spark.driver.extraClassPath", "").split(os.pathsep) if path]
    jars = filter(None, map(str.strip, conf.get("spark.jars", "").split(",")))
    listed += [re.sub(r"^file:(//)?", "", jar) for jar in jars if "://" not in jar or jar.startswith("file://")]
    return [Path(path).absolute() for path in listed]
