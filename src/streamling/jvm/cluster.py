"""What the executors of a cluster have to be told that Spark on this machine need not."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

from streamling.errors import StreamlingError
from streamling.jvm.command import avro_limits, heap_mb

#: What upper('i') is must not depend on the worker's locale.
_LOCALE = "-Duser.language=en -Duser.country=US"
#: Java's default, G1, corrupts data on Java 25 before 25.0.3, and nobody here knows which Java a worker has.
_COLLECTOR = "-XX:+UseParallelGC"
#: Spark's default
_EXECUTOR_MB = 1024
_NAMED_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")

_CONNECT_SECONDS = 5.0
#: what Spark says when a master has not taken the application within a minute
_NOT_TAKEN = ("stopped SparkContext", "stopped while waiting for backend")


def executor_settings(conf: Mapping[str, str], jars: Iterable[Path]) -> dict[str, str]:
    """Spark settings that deliver ``jars`` to executors and start their JVMs as ours; the user's are included."""
    theirs = conf.get("spark.executor.extraJavaOptions", "")
    limits = avro_limits(heap_mb(conf, "spark.executor.memory", _EXECUTOR_MB))
    properties = " ".join(f"-D{name}={value}" for name, value in limits.items())
    options = (_LOCALE, properties, "" if _NAMED_COLLECTOR.search(theirs) else _COLLECTOR, theirs)
    return {
        # The driver serves them over its own port: no file system is shared.
        "spark.jars": ",".join(filter(None, (conf.get("spark.jars", ""), *map(str, jars)))),
        "spark.executor.extraJavaOptions": " ".join(filter(None, options)),
    }


def check_master(master: str) -> None:
    """Raise when none of the addresses of a standalone master can be connected to: Spark itself needs a minute to say
    so, in other words."""
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
        remedy="check spark.master, and that the master runs",
    )


def application_rejected_error(master: str, message: str) -> StreamlingError | None:
    """Why a start failed when the master did not accept the application; None: it failed otherwise."""
    if not master.startswith("spark://") or not any(words in message for words in _NOT_TAKEN):
        return None
    return StreamlingError(
        f"the Spark master {master} did not accept the application",
        remedy="look at the master's log; it has to run the same version of Spark, and reach this machine",
    )
