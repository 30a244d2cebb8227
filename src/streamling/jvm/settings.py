"""Spark's settings as streamling wants them; what the user sets in ``spark.conf`` wins."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from streamling.builtins import builtins
from streamling.jvm.cluster import executor_settings
from streamling.spark.master import is_local, local_cores, on_this_machine

LOOPBACK = "127.0.0.1"

_ALWAYS = {
    "spark.app.name": "streamling",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    # The SQL compiler spells names exactly; columns that differ only in case stay apart.
    "spark.sql.caseSensitive": "true",
    # Decimals keep their scale as in DataFusion, and a result that then needs more than 38 digits is an error. Spark's
    # default is to round digits after the point away.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "true",
    # base64 without a line break after every 76 characters
    "spark.sql.chunkBase64String.enabled": "false",
    "spark.sql.catalogImplementation": "in-memory",
    # ICU builds a table of all characters at the first `upper`, half a second of a start; Java's own case mappings are
    # as complete, and quicker for ASCII.
    "spark.sql.icu.caseMappings.enabled": "false",
    # Spark takes `lower(upper(x))` for `lower(x)`, which is another text for ß and İ.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.SimplifyCaseConversionExpressions",
    # Times of day (Avro, Arrow) need it, and Spark also looks at it where the session is not the pipeline's.
    "spark.sql.timeType.enabled": "true",
    # A session per pipeline would copy its artifacts folder otherwise.
    "spark.sql.artifact.isolation.enabled": "false",
    # File batches name their files: checking a thousand of them with a job took 3.9 s, in the driver 0.7 s.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Parquet timestamps in nanoseconds are no Spark type; the file source turns the numbers into microseconds.
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.pyspark.fallback.enabled": "false",
    # Trigger floor 92 → 44 ms: the default manager starts a process for each rename.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    # An idle query takes 17 % of a core at the default 10 ms, 4.9 % at 100 ms, 2.3 % at 250 ms.
    "spark.sql.streaming.pollingDelay": "250ms",
}

#: what keeps SQL inside of its rows; ``spark.conf`` cannot loosen it
_SAFE = {
    # `${env:NAME}` and `${system:name}` in any SQL text would become their values, `'${x}'` an empty text.
    "spark.sql.variable.substitute": "false",
    # FROM csv.`/etc/passwd`
    "spark.sql.runSQLOnFiles": "false",
}

#: the shortest limit of a unix socket's path (macOS), and what Spark's names take of it
_SOCKET_PATH, _SOCKET_NAME = 103, len("/.00000000-0000-0000-0000-000000000000.sock")


def spark_settings(master: str, conf: Mapping[str, str], scratch: Path, jars: Sequence[Path] = ()) -> dict[str, str]:
    """Everything the session is built with; ``jars`` go to the executors. For temporary files Spark takes the JVM's own
    folder: no setting."""
    settings = {
        **_ALWAYS,
        **{name: value for builtin in builtins() for name, value in builtin.spark_settings.items()},
        "spark.master": master,
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
        # 74 instead of 212 ms per `mapInArrow` trigger; loopback TCP where the path would be too long, as those of
        # YARN's containers are.
        "spark.python.unix.domain.socket.enabled": str(
            len(str(scratch)) <= _SOCKET_PATH - _SOCKET_NAME and master != "yarn"
        ).lower(),
    }
    if is_local(master):
        settings["spark.sql.shuffle.partitions"] = str(local_cores(master, os.cpu_count() or 1))
        # Rows for Python are results of tasks. Those larger than this (1 MB by default) are stored as blocks and
        # fetched through a socket, even from this very process.
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
