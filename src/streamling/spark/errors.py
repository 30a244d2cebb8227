"""Translates errors of Spark into the user's terms: what happened, Spark's own name for it, and what to do.

Spark wraps an error several times on its way to Python (``Exception thrown in awaitResult``, ``Job aborted due to stage
failure``). The innermost error with a message counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamling.errors import StreamlingError
from streamling.redaction import redact

_MEMORY = "raise spark.driver.memory (on a cluster spark.executor.memory), or lower batch_size of the source"
_JARS = "add its jar to spark.jars in spark.conf; streamling doctor --fix fetches the connectors"

#: pattern in the text of any error in the chain → the message and the remedy
_KNOWN: tuple[tuple[re.Pattern[str], str, str], ...] = tuple(
    (re.compile(pattern), sentence, remedy)
    for pattern, sentence, remedy in (
        (r"No space left on device", "the disk is full", "free space in the temporary folder, or set TMPDIR"),
        (r"maxResultSize", "the rows of one batch are larger than spark.driver.maxResultSize",
         "lower batch_size of the source, or raise spark.driver.maxResultSize in spark.conf"),
        (r"OutOfMemoryError|UNABLE_TO_ACQUIRE_MEMORY|MemoryError", "Spark ran out of memory", _MEMORY),
        (r"Executor\s?Lost|Lost executor|executor \S+ exited|Command exited with code|Remote RPC client disassociated",
         "an executor was lost", "check its log; the usual cause is memory: raise spark.executor.memory"),
        (r"Python worker (?:exited unexpectedly|failed|process)", "a Python worker of Spark ended unexpectedly",
         "it crashed or was killed, usually for lack of memory; run again with --debug to see Spark's log"),
        (r"(?:ClassNotFoundException|NoClassDefFoundError)\b", "a Java class is missing", _JARS),
        (r"NoSuchMethodError|AbstractMethodError|IncompatibleClassChangeError|UnsupportedClassVersionError",
         "a jar does not match this version of Spark", "check spark.jars: they must be built for Spark 4"),
        (r"NotSerializableException", "an object cannot be sent to the executors", "keep connections out of the fields"
         " of a plugin until it is opened"),
        (r"task killed|TaskKilled|[Cc]ancelled|JOB_CANCELLED", "Spark's job was cancelled",
         "it may have been stopped in Spark's own console; restart the pipeline"),
        (r"FetchFailed|MetadataFetchFailed", "rows between two stages were lost with an executor",
         "restart the pipeline; if it happens often, raise spark.executor.memory"),
        (r"stopped SparkContext|SparkContext was shut down", "Spark was stopped", "restart the pipeline"),
        (r"Failed to connect to|Connection refused|Connection reset|Py4JNetworkError",
         "a connection inside Spark was lost",
         "check for a firewall or a process that was killed, then restart the pipeline"),
    )
)  # fmt: skip

#: errors that only report that another one happened
_WRAPPERS = re.compile(r"Exception thrown in awaitResult|^Job aborted\b(?! due)|^An error occurred while calling")
_STAGE = re.compile(r"^Job aborted due to stage failure: (?:Task .*?most recent failure: .*?: )?(.*)", re.DOTALL)
_CONDITION = re.compile(r"^\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]\s*(.*)", re.DOTALL)
_CLASS = re.compile(r"^((?:[a-z_][\w$]*\.)+[A-Z][\w$]*(?:Exception|Error|Failure))(?::\s*|$)(.*)", re.DOTALL)
_CAUSED_BY = re.compile(r"^(?:Caused by)?: ?((?:[a-z_][\w$]*\.)+[A-Z][\w$]*)(?:: (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class SparkFailure:
    """What happened, Spark's name for it, and what to do."""

    message: str
    #: Spark's error condition, or the class of the exception
    name: str
    remedy: str | None = None

    def __str__(self) -> str:
        return f"{self.message} ({self.name})" if self.name not in self.message else self.message


def spark_failure(error: BaseException) -> SparkFailure:
    """Return the failure behind ``error``, which a call of Spark raised."""
    links = list(_links(error))
    meaningful = [link for link in links if link[1]] or links
    name, message = meaningful[-1]
    # an error condition of Spark says more than the Java exception below it
    for outer, text in reversed(meaningful):
        if outer.isupper():
            detail = f": {_first_line(message)}" if (outer, text) != (name, message) and message else ""
            name, message = outer, f"{_first_line(text)}{detail}"
            break
    everything = "\n".join(f"{kind}: {text}" for kind, text in links)
    for pattern, sentence, remedy in _KNOWN:
        if pattern.search(everything):
            return SparkFailure(f"{sentence}: {_first_line(message)}" if message else sentence, name, remedy)
    return SparkFailure(_first_line(message) or "no reason given", name)


def is_from_spark(error: BaseException) -> bool:
    """Return whether ``error`` came from Spark, and not from Python code that Spark called on this side."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError)


def spark_error(error: BaseException, what: str) -> StreamlingError:
    """Convert ``error`` to a `StreamlingError`: ``what`` failed, why, and what to do."""
    failure = spark_failure(error)
    remedy = failure.remedy or "run again with --debug to see the full output of Spark"
    translated = StreamlingError(f"{what}: {failure}", remedy=remedy)
    translated.__suppress_context__ = True  # Spark's own text only adds a stack trace
    return translated


def _links(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yield name and message of each error in the chain, outermost first."""
    java = list(_java_links(error))
    if java:
        yield from java
        return
    text = _text(error)
    found = [_link(kind, message or "") for kind, message in _CAUSED_BY.findall(text)]
    yield from found or [_link(type(error).__name__, text)]
    if isinstance(error.__cause__, Exception):
        yield from _links(error.__cause__)


def _java_links(error: BaseException) -> Iterator[tuple[str, str]]:
    throwable: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        for _ in range(20):
            if throwable is None:
                return
            message = str(throwable.getMessage() or "")
            if not _WRAPPERS.search(message):
                yield _link(str(throwable.getClass().getName()), message)
            throwable = throwable.getCause()
    except Exception:  # the JVM may have ended
        return


def _link(kind: str, message: str) -> tuple[str, str]:
    message = message.strip()
    if stage := _STAGE.match(message):
        message = stage[1].strip()
    if inner := _CLASS.match(message):
        kind, message = inner[1], inner[2].strip()
    if condition := _CONDITION.match(message):
        kind, message = condition[1], condition[2]
    if kind == "PYTHON_EXCEPTION" or "Traceback (most recent call last)" in message:
        message = _last_trace_line(message)
    return kind, message.partition(" SQLSTATE")[0].strip()


def _last_trace_line(message: str) -> str:
    """Extract ``ValueError: no such`` from a Python stack trace."""
    lines = [line for line in message.partition(" SQLSTATE")[0].splitlines() if line.strip()]
    own = [line for line in lines if re.match(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt)\b", line)]
    return f"a Python function failed: {(own or lines or [''])[-1].strip()}"


def _first_line(message: str) -> str:
    line = redact(message).strip().partition("\n")[0].rstrip(". ")
    return line if len(line) <= 500 else f"{line[:499]}…"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # a PySpark exception has no text once its JVM has ended
        return ""
