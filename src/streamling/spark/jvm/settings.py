"""Spark's default settings here; the user's ``spark.conf`` takes precedence."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamling.builtins import builtins
from streamling.spark.jvm.cluster import executor_settings
from streamling.spark.master import is_local, local_cores, on_this_machine

LOOPBACK = "127.0.0.1"

#: Bytes of a generated method up to which the operators of a plan become one piece of code. Java's compiler gives up on
#: methods of about 16 000 bytes and interprets them; then the operators one by one, in small methods, are four times as
#: fast (60 expressions: 0.8 instead of 3.3 s for 400 000 rows).
LARGEST_METHOD = 12_000

_ALWAYS = {
    "spark.app.name": "streamling",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    # The SQL compiler writes names exactly; columns that differ only in case are different columns.
    "spark.sql.caseSensitive": "true",
    # Decimals keep their scale as in DataFusion, and a result that needs more than 38 digits is an error. Spark's
    # default rounds digits after the decimal point away.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
    # base64 without a line break after every 76 characters
    "spark.sql.chunkBase64String.enabled": "false",
    "spark.sql.codegen.hugeMethodLimit": str(LARGEST_METHOD),
    "spark.sql.catalogImplementation": "in-memory",
    # ICU builds a table of all characters at the first `upper`, which takes half a second at start-up; Java's own case
    # mappings are as complete, and faster for ASCII.
    "spark.sql.icu.caseMappings.enabled": "false",
    # Spark simplifies `lower(upper(x))` to `lower(x)`, which is a different text for ß and İ.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.SimplifyCaseConversionExpressions",
    # Needed for times of day (Avro, Arrow); Spark also reads it in places where the session is not the pipeline's.
    "spark.sql.timeType.enabled": "true",
    # Otherwise a session per pipeline would copy its artifacts folder.
    "spark.sql.artifact.isolation.enabled": "false",
    # Batches of the file source list their files: checking a thousand of them took 3.9 s as a job, 0.7 s in the driver.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Spark has no type for Parquet timestamps in nanoseconds; the file source converts the numbers to microseconds.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Arrow data stays as it is until tasks read it. As rows of the plan it takes 14 times the memory, and a batch of
    # 200 000 rows takes 5 times as long. A few hundred rows are part of the plan, because they then need no job
    # (`spark/local_frames.py`): a third less CPU time for the cases of `streamling test`.
    "spark.sql.execution.arrow.localRelationThreshold": "16KB",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
}

#: keeps SQL inside its rows; ``spark.conf`` cannot relax it
_SAFE = {
    # `${env:NAME}` and `${system:name}` in any SQL text would be replaced by their values, `'${x}'` by an empty text.
    "spark.sql.variable.substitute": "false",
    # FROM csv.`/etc/passwd`
    "spark.sql.runSQLOnFiles": "false",
}

#: the smallest limit for the path of a unix socket (macOS), and what Spark's names take of it
_SOCKET_PATH, _SOCKET_NAME = 103, len("/.00000000-0000-0000-0000-000000000000.sock")


def spark_settings(master: str, conf: Mapping[str, str], scratch: Path, jars: Sequence[Path] = ()) -> dict[str, str]:
    """Return all settings of the session; ``jars`` go to the executors. Spark uses the JVM's own folder for temporary
    files, which needs no setting."""
    settings = {
        **_ALWAYS,
        **_builtin_settings(),
        "spark.master": master,
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        # 74 instead of 212 ms per `mapInArrow` job; loopback TCP where the path would be too long, as in YARN's
        # containers.
        "spark.python.unix.domain.socket.enabled": str(
            len(str(scratch)) <= _SOCKET_PATH - _SOCKET_NAME and master != "yarn"
        ).lower(),
    }
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(local_cores(master, os.cpu_count() or 1))
        # Rows for Python are task results. Results larger than this (1 MB by default) are stored as blocks and fetched
        # through a socket, even from this process.
        settings["spark.task.maxDirectResultSize"] = "100m"
    if on_this_machine(master):
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.authenticate": "true",
            "spark.authenticate.secret": secrets.token_hex(32),
        }
    settings |= {key: str(value) for key, value in conf.items()}
    executors = {} if is_local(master) else executor_settings(settings, jars)
    return {**settings, **executors, **_SAFE, "spark.master": master}


def _builtin_settings() -> dict[str, str]:
    return {name: value for builtin in builtins() for name, value in builtin.spark_settings.items()}
