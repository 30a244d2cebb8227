"""What the executors of a cluster have to be told that Spark on this machine need not."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

#: What upper('i') is must not depend on the worker's locale.
_LOCALE = "-Duser.language=en -Duser.country=US"
#: Java's default, G1, corrupts data on Java 25 before 25.0.3, and nobody here knows which Java a worker has.
_COLLECTOR = "-XX:+UseParallelGC"
_NAMED_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")


def executor_settings(conf: Mapping[str, str], jars: Iterable[Path]) -> dict[str, str]:
    """Spark settings that deliver ``jars`` to executors and start their JVMs as ours; the user's are included."""
    theirs = conf.get("spark.executor.extraJavaOptions", "")
    options = (_LOCALE, "" if _NAMED_COLLECTOR.search(theirs) else _COLLECTOR, theirs)
    return {
        # The driver serves them over its own port: no file system is shared.
        "spark.jars": ",".join(filter(None, (conf.get("spark.jars", ""), *map(str, jars)))),
        "spark.executor.extraJavaOptions": " ".join(filter(None, options)),
    }
