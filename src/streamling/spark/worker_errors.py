"""What went wrong with a worker of a cluster, read from the text that Spark makes of it."""

from __future__ import annotations

import re
from collections.abc import Callable

from streamling.errors import StreamlingError
from streamling.spark.python_errors import ExecutorError

INSTALL = (
    "install the same version of streamling for the Python of every worker, or ship an environment with spark.archives "
    "and spark.pyspark.python (docs/cluster.md)"
)
_PYTHON = "set spark.pyspark.python in spark.conf to the Python of the workers that has streamling (docs/cluster.md)"
_MEMORY = (
    "if it was killed for its memory, raise spark.executor.memory or spark.executor.memoryOverhead in spark.conf; the "
    "log of the executor says more"
)
_VERSION = "the workers have to run the same version of Spark as the driver"
_JAR = "list the jar in spark.jars of spark.conf: the driver sends it to the executors"

#: which machine the failed task ran on, and in which executor
_TASK = re.compile(r"\(TID \d+\) \((?P<host>\S+) executor (?P<executor>\w+)\)")

#: the only executor of a local master
_DRIVER = "driver"

#: the first that is found in the text explains it: pattern, our sentence about the match, and what to do
_CAUSES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str], str], ...] = (
    (
        re.compile(r"ExecutorLostFailure \(executor \w+ exited [^)]*\) Reason: (?P<reason>[^\n]*)"),
        lambda found: f"the executor was lost while it ran: {found['reason'].strip()}",
        _MEMORY,
    ),
    (
        re.compile(r'Cannot run program "(?P<python>[^"]+)"'),
        lambda found: f"there is no Python at '{found['python']}'",
        _PYTHON,
    ),
    (
        re.compile(r"PYTHON_VERSION_MISMATCH[^\n]*?(?P<text>Python in worker[^\n.]*\.\d+[^\n]*?)\. "),
        lambda found: f"its Python is another one: {found['text']}",
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
        lambda found: f"its Spark is of another version: {found['name']} differs",
        _VERSION,
    ),
    (
        re.compile(r"Python worker exited unexpectedly \(crashed\)"),
        lambda found: "a Python worker ended while it ran",
        _MEMORY,
    ),
)


def worker_failure(error: BaseException | str) -> StreamlingError | None:
    """The failure of a job when the machine that ran it is at fault; None when the error is about something else, or
    when the job ran in the driver."""
    text = str(error)
    tasks = list(_TASK.finditer(text))
    if ExecutorError.__name__ in text or not tasks or tasks[-1]["executor"] == _DRIVER:
        return None  # raised by an operator, which ran, or not by a worker
    place = f"worker {tasks[-1]['host']} (executor {tasks[-1]['executor']})"
    for pattern, sentence, remedy in _CAUSES:
        if found := pattern.search(text):
            failure = StreamlingError(f"{place}: {sentence(found)}", remedy=remedy)
            failure.__cause__ = None  # Spark's text adds nothing
            return failure
    return None
