"""The command line of the Spark JVM: flags, heap, compilers."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from streamling.errors import StreamlingError
from streamling.spark.jvm.java import Java

# C2 uses as much CPU time in the first seconds as everything else together, which delays the first row on few cores.
# With ten times the calls before it compiles, a start costs a quarter less CPU, and hot code is still compiled soon
# enough.
_LATE_C2 = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)

#: Java interprets methods of more than 8 000 bytes, which is ten times slower. The code that Spark generates for ten
#: columns of a topic can be larger; with this flag, up to `settings.LARGEST_METHOD` is compiled.
COMPILE_LARGE_METHODS = "-XX:-DontCompileHugeMethods"

#: enough for any pipeline with bounded batches; an idle JVM with it stays at 450 MB in total
DEFAULT_HEAP_MB = 512

_MAIN = "org.apache.spark.api.python.PythonGatewayServer"

# The packages that Spark's launch scripts open; they are not used here.
_OPENED = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)

#: one text or array of an Avro message may take this fraction of the heap: 32 MiB by default
_AVRO_SHARE = 16
_REFERENCE_BYTES = 4
_LONGEST = 2**31 - 9  # maximum length of an array in Java

_MIB = {"b": 1 / 2**20, "k": 1 / 2**10, "m": 1, "g": 2**10, "t": 2**20}


@dataclass(frozen=True)
class JvmCommand:
    """How one JVM is started. An archive depends on ``java``, ``class_path`` and ``flags``."""

    java: Java
    class_path: tuple[Path, ...]
    flags: tuple[str, ...]
    #: flags that an archive does not depend on: heap size, compiler level, system properties
    tuning: tuple[str, ...] = ()

    def line(self, extra: Iterable[str] = ()) -> list[str]:
        """Return the words of the command; ``extra`` flags come last, so that they take precedence."""
        paths = os.pathsep.join(map(str, self.class_path))
        return [str(self.java.executable), *self.flags, *self.tuning, *extra, "-cp", paths, _MAIN]


def jvm_command(
    java: Java,
    conf: Mapping[str, str],
    class_path: tuple[Path, ...],
    *,
    quick: bool = False,
    debug: bool = False,
) -> JvmCommand:
    """Return the command for these Spark settings; ``quick`` trades peak throughput for a faster start."""
    if conf.get("spark.jars.packages"):
        raise StreamlingError.user(
            "spark.conf sets spark.jars.packages, which only spark-submit resolves",
            remedy="download the jars and list their paths in spark.jars",
        )
    properties = {
        "log4j2.configurationFile": (Path(__file__).parent / "log4j2.properties").as_uri(),
        "streamling.log.level": "info" if debug else "warn",
        # The result of upper('i') must not depend on the machine.
        "user.language": "en",
        "user.country": "US",
        "jdk.reflect.useDirectMethodHandle": "false",
        "io.netty.tryReflectionSetAccessible": "true",
        "io.netty.allocator.type": "pooled",
        **avro_limits(heap_mb(conf)),
    }
    # Spark processes SQL recursively: a sum of 1 000 terms and a chain of 400 nodes need more than the default 1 MiB.
    # Only what a thread actually uses becomes memory.
    tuning = [f"-Xmx{heap_mb(conf)}m", "-Xss16m", COMPILE_LARGE_METHODS]
    tuning += ["-XX:TieredStopAtLevel=1"] if quick else _LATE_C2
    # Map an archive at the address it was written for: relocating it would patch 200 MB of pointers at every start.
    tuning += ["-XX:+UnlockDiagnosticVMOptions", "-XX:ArchiveRelocationMode=0"]
    if java.major == 25:
        # An archive contains profiles from training on small inputs. Code compiled with them runs the loops of large
        # batches a third slower (14 instead of 22 M rows/s); a start takes the same time without them.
        tuning.append("-XX:-AOTReplayTraining")
    tuning += [f"-D{name}={value}" for name, value in properties.items()]
    tuning += shlex.split(conf.get("spark.driver.extraJavaOptions", ""))
    return JvmCommand(java, class_path, _flags(java), tuple(tuning))


def avro_limits(heap_mb: int) -> dict[str, str]:
    """Return system properties that limit what Avro's decoder allocates. It allocates the length that a message claims
    before it looks for the content: a damaged message of ten bytes would exhaust the heap and end the JVM."""
    share = heap_mb * 2**20 // _AVRO_SHARE
    limits = {"bytes": share, "string": share, "collectionItems": share // _REFERENCE_BYTES}
    return {f"org.apache.avro.limits.{what}.maxLength": str(min(most, _LONGEST)) for what, most in limits.items()}


def heap_mb(conf: Mapping[str, str], setting: str = "spark.driver.memory", default_mb: int = DEFAULT_HEAP_MB) -> int:
    """Return the heap in MiB from a setting in Spark's size format (a bare number is MiB)."""
    text = conf.get(setting, f"{default_mb}m")
    size = re.fullmatch(r"\s*(\d+)\s*([bkmgt]?)b?\s*", text.lower())
    if not size or int(int(size[1]) * _MIB[size[2] or "m"]) < 1:
        raise StreamlingError.user(f"{setting} is {text!r}, expected a size such as 512m or 2g")
    return int(int(size[1]) * _MIB[size[2] or "m"])


def _flags(java: Java) -> tuple[str, ...]:
    # Serial: the least memory and the fastest start on few cores. G1 corrupts data on Java 25 before 25.0.3.
    flags = ["-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError"]
    flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    if java.major >= 23:
        flags.append("--sun-misc-unsafe-memory-access=allow")
    if java.major >= 22:
        flags.append("--enable-native-access=ALL-UNNAMED")
    return tuple(flags)
