"""Settings and checks that only clusters need."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from streamling.errors import StreamlingError
from streamling.spark.jvm.command import COMPILE_LARGE_METHODS, avro_limits, heap_mb

#: The result of upper('i') must not depend on the worker's locale.
_LOCALE = "-Duser.language=en -Duser.country=US"
#: Java's default, G1, corrupts data on Java 25 before 25.0.3, and the Java version of the workers is unknown here.
_COLLECTOR = "-XX:+UseParallelGC"
#: Spark's default
_EXECUTOR_MB = 1024
_NAMED_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

_CONNECT_SECONDS = 5.0
#: Spark's messages when a master has not accepted the application within a minute
_NOT_TAKEN = ("stopped SparkContext", "stopped while waiting for backend")


def executor_settings(conf: Mapping[str, str], jars: Iterable[Path]) -> dict[str, str]:
    """Return the Spark settings that send ``jars`` to executors and start their JVMs like ours; the user's options are
    included."""
    theirs = conf.get("spark.executor.extraJavaOptions", "")
    limits = avro_limits(heap_mb(conf, "spark.executor.memory", _EXECUTOR_MB))
    properties = " ".join(f"-D{name}={value}" for name, value in limits.items())
    options = (
        _LOCALE,
        properties,
        COMPILE_LARGE_METHODS,
        "" if _NAMED_COLLECTOR.search(theirs) else _COLLECTOR,
        theirs,
    )
    return {
        # The driver serves them over its own port: no shared file system is needed.
        "spark.jars": ",".join(filter(None, (conf.get("spark.jars", ""), *map(str, jars)))),
        "spark.executor.extraJavaOptions": " ".join(filter(None, options)),
    }


def check_master(master: str) -> None:
    """Raise if no address of a standalone master accepts a connection: Spark itself takes a minute to report it, less
    clearly."""
    if not master.startswith("spark://"):
        return
    errors = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
            return
        except ValueError:
            errors.append(f"'{address}' has no port")
        except OSError as error:
            errors.append(f"{address}: {error.strerror or error}")
    raise StreamlingError.user(
        f"the Spark master {master} cannot be reached: {'; '.join(errors)}",
        remedy="check spark.master, and that the master is running",
    )


def application_rejected_error(master: str, message: str) -> StreamlingError | None:
    """Return the error if a start failed because the master did not accept the application; None for other failures."""
    if not master.startswith("spark://") or not any(words in message for words in _NOT_TAKEN):
        return None
    return StreamlingError(
        f"the Spark master {master} did not accept the application",
        remedy=(
            "check the master's log; it must run the same version of Spark, and be able to connect to this machine"
        ),
    )
