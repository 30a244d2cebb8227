"""Recognizes failures of a cluster's workers in Spark's text."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamling.errors import StreamlingError
from streamling.spark.python_errors import ExecutorError

INSTALL = (
    "install the same version of streamling in the Python of every worker, or ship an environment with "
    "spark.archives and spark.pyspark.python (docs/cluster.md)"
)
_PYTHON = "set spark.pyspark.python in spark.conf to a Python on the workers that has streamling (docs/cluster.md)"
_MEMORY = (
    "if it was killed because of its memory use, raise spark.executor.memory or spark.executor.memoryOverhead in "
    "spark.conf; check the executor's log"
)
_VERSION = "run the same version of Spark on the workers as on the driver"
_JAR = "list the jar in spark.jars of spark.conf: the driver sends it to the executors"

#: host and executor of the failed task
_TASK = re.compile(r"\(TID \d+\) \((?P<host>\S+) executor (?P<executor>\w+)\)")

#: the only executor of a local master
_DRIVER = "driver"

#: pattern, message for the match, and remedy; the first match wins
_CAUSES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str], str], ...] = (
    (
        re.compile(r"ExecutorLostFailure \(executor \w+ exited [^)]*\) Reason: (?P<reason>[^\n]*)"),
        lambda found: f"the executor was lost: {found['reason'].strip()}",
        _MEMORY,
    ),
    (
        re.compile(r'Cannot run program "(?P<python>[^"]+)"'),
        lambda found: f"there is no Python at '{found['python']}'",
        _PYTHON,
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH[^\n]*?(?P<text>Python in worker[^\n.]*\.\d+[^\n]*?)\. "),
        lambda found: f"it has another version of Python: {found['text']}",
        _PYTHON,
    ),
    (
        re.compile(r"ModuleNotFoundError: No module named '(?P<module>[^']+)'"),
        lambda found: f"its Python has no module '{found['module']}'",
        INSTALL,
    ),
    (
        re.compile(r"java\.lang\.(?:ClassNotFoundException|NoClassDefFoundError): (?P<name>[\w.$/]+)"),
        lambda found: f"its Java has no class {found['name'].replace('/', '.')}",
        _JAR,
    ),
    (
        re.compile(r"InvalidClassException: (?P<name>[\w.$]+); local class incompatible"),
        lambda found: f"it has another version of Spark: {found['name']} differs",
        _VERSION,
    ),
    (
        re.compile(r"Python worker exited unexpectedly \(crashed\)"),
        lambda found: "a Python worker crashed",
        _MEMORY,
    ),
)


def worker_failure(error: BaseException | str) -> StreamlingError | None:
    """Return the error if the machine that ran the job is at fault; None if the error is about something else, or if
    the job ran in the driver."""
    text = str(error)
    tasks = list(_TASK.finditer(text))
    if ExecutorError.__name__ in text or not tasks or tasks[-1]["executor"] == _DRIVER:
        return None  # raised by an operator, or not on a worker
    worker = f"worker {tasks[-1]['host']} (executor {tasks[-1]['executor']})"
    for pattern, sentence, remedy in _CAUSES:
        if found := pattern.search(text):
            failure = StreamlingError(f"{worker}: {sentence(found)}", remedy=remedy)
            failure.__cause__ = None  # Spark's text adds nothing
            return failure
    return None
