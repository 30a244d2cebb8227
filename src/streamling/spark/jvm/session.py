"""A Spark session on its own JVM, started while the pipeline is prepared."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from logging import LogRecord, getLogger
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from streamling.errors import StreamlingError
from streamling.spark.jvm.archive import Archive, build_in_background
from streamling.spark.jvm.class_path import OWN_JAR, class_path, unsigned
from streamling.spark.jvm.cluster import application_rejected_error, check_master
from streamling.spark.jvm.command import jvm_command
from streamling.spark.jvm.connections import hold_connections_once
from streamling.spark.jvm.environment import jvm_environment
from streamling.spark.jvm.executors import executor_environment
from streamling.spark.jvm.jars import fetch_spark_packages, fetched_spark_packages
from streamling.spark.jvm.java import find_java
from streamling.spark.jvm.process import Gateway, Jvm
from streamling.spark.jvm.settings import spark_settings
from streamling.spark.jvm.timings import Timings
from streamling.spark.master import is_local
from streamling.spark.scratch import Scratch, sweep
from streamling.spark.unsafe_functions import remove_unsafe_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: time for executors to learn that the application has ended
_CLUSTER_STOP_SECONDS = 5.0
#: writing an archive takes 10 to 30 s
_RECORD_SECONDS = 300.0


@dataclass(frozen=True)
class _Order:
    """The arguments of a start."""

    master: str
    conf: dict[str, str]
    cache_dir: Path
    spark_packages: frozenset[str]
    timings: Timings
    record: bool
    #: our own jar and those of the Spark packages, which executors need too
    jars: tuple[Path, ...] = ()


class SparkDriver:
    """One JVM with one Spark application.

    PySpark allows one at a time per process; one after another is fine.
    """

    def __init__(self, jvm: Jvm, scratch: Scratch, archive: Archive, order: _Order) -> None:
        self._jvm = jvm
        self._scratch = scratch
        self._archive = archive
        self._order = order
        self._stop_lock = threading.Lock()
        self._stopped = False
        self._hidden = _hide_variables()
        self._session: Future[SparkSession] = Future()
        threading.Thread(target=self._build, name="spark-start", daemon=True).start()
        atexit.register(self.stop)

    @classmethod
    def start(
        cls,
        *,
        master: str = "local[*]",
        conf: Mapping[str, str] | None = None,
        cache_dir: Path,
        spark_packages: frozenset[str] = frozenset(),
        quick: bool = False,
        debug: bool = False,
        timings: Timings | None = None,
        record: bool = False,
        variables: Iterable[str] = (),
        properties: Mapping[str, str] = MappingProxyType({}),
    ) -> SparkDriver:
        """Launch the JVM and return immediately; another thread imports PySpark and builds the session.

        ``spark_packages`` that are not in the cache are downloaded first; those in the cache are always loaded.
        ``quick`` is for short jobs: a faster start, but slower long runs. ``debug`` copies the JVM's output to stderr.
        ``record`` makes the JVM write the start-up archive when it is stopped. ``variables`` lists environment
        variables passed to Spark's processes besides those they need. ``properties`` are system properties
        of the JVM.
        """
        spark_packages |= fetched_spark_packages(cache_dir)
        order = _Order(master, dict(conf or {}), cache_dir, spark_packages, timings or Timings(), record)
        logs = cache_dir / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        java = find_java(os.environ)
        jars = fetch_spark_packages(cache_dir, spark_packages, java=java, ivy_settings=_ivy_settings(order.conf))
        command = jvm_command(java, order.conf, class_path(order.conf, jars), quick=quick, debug=debug)
        archive = Archive.of(command, cache_dir)
        scratch = Scratch()
        own = [f"-Djava.io.tmpdir={scratch.path}", f"-XX:ErrorFile={logs}/hs_err_%p.log"]
        own += [f"-D{name}={value}" for name, value in properties.items()]
        command = replace(command, class_path=unsigned(command.class_path, cache_dir))
        line = command.line([*own, *(archive.record() if record else archive.use())])
        try:
            env = jvm_environment(master, os.environ, variables)
            if master.startswith("local-cluster") or master == "yarn":  # its client uploads the jars of a Spark home
                env |= executor_environment(java, scratch.path)
            jvm = Jvm(line, env, scratch.path, debug=debug, locks=[scratch.lock])
        except BaseException:
            scratch.remove()
            raise
        order.timings.mark("JVM launched")
        return cls(jvm, scratch, archive, replace(order, jars=(OWN_JAR, *jars)))

    def session(self) -> SparkSession:
        """Wait for the session. Raises a `StreamlingError` if Spark could not start."""
        return self._session.result()

    def is_ready(self) -> bool:
        """Return whether `session` returns a session immediately."""
        return self._session.done() and self._session.exception() is None

    def alive(self) -> bool:
        """Return whether the JVM is running."""
        return not self._stopped and self._jvm.alive()

    def failure(self) -> StreamlingError | None:
        """Return why the JVM ended unexpectedly; None while it runs or after `stop`."""
        if self._stopped:
            return None
        self._jvm.wait_if_exiting()
        return None if self._jvm.alive() else self._jvm.failure("Spark stopped")

    def wait(self) -> None:
        """Wait until the JVM has ended, for whatever reason."""
        self._jvm.process.wait()

    @contextmanager
    def translate_failures(self) -> Iterator[None]:
        """Raise the reason if the JVM has ended unexpectedly: its last output explains more than the calls that failed
        because of it."""
        try:
            yield
        except StreamlingError as error:
            death = self.failure()
            if death is None:
                raise
            if error.node is not None:  # the node that noticed
                death.of_node(error.node)
            elif error.contexts:  # or the nodes of its plan
                death.context(error.contexts[-1])
            raise death from death.__cause__

    def stop(self) -> None:
        """Stop the session and the JVM and remove their files; further calls do nothing."""
        with self._stop_lock:
            if self._stopped:
                return
            self._stopped = True
            atexit.unregister(self.stop)
            self._end_jvm()
            with suppress(StreamlingError):
                self._session.result()
                _forget_session()
            os.environ.update(self._hidden)
            self._jvm.close()
            self._scratch.remove()

    def kill(self) -> None:
        """Kill the JVM and remove its folder without waiting, for a process that exits by force."""
        self._jvm.process.kill()
        self._scratch.remove()

    @property
    def spark_packages(self) -> frozenset[str]:
        """The Spark packages it was started with."""
        return self._order.spark_packages

    @property
    def scratch(self) -> Path:
        """A folder that is deleted when the runtime stops."""
        return self._scratch.path

    def last_output(self) -> str:
        """Return the end of what the JVM printed."""
        return self._jvm.last_output()

    def archive_missing(self) -> bool:
        """Return whether this start would have been faster with an archive that can be built."""
        return not self._archive.exists() and self._archive.failure() is None

    def build_archive_in_background(self) -> None:
        """Build the archive for the next start in a detached process that outlives this one."""
        order = self._order
        build_in_background(cache_dir=order.cache_dir, conf=order.conf, spark_packages=order.spark_packages)

    def _end_jvm(self) -> None:
        if self._order.record:
            self._jvm.finish(_RECORD_SECONDS)
        elif not is_local(self._order.master):
            with suppress(Exception):
                self._session.result(_CLUSTER_STOP_SECONDS).sparkContext._jsc.stop()
            self._jvm.finish(_CLUSTER_STOP_SECONDS)
        # A local Spark holds only its scratch folder; its own shutdown takes 0.6 s.
        self._jvm.kill()

    def _build(self) -> None:
        try:
            with self._order.timings.phase("import PySpark"):
                import pyspark.sql  # noqa: F401  # brings pyarrow along
            with self._order.timings.phase("wait for the JVM"):
                gateway = self._jvm.gateway()
            with self._order.timings.phase("build the session"):
                check_master(self._order.master)
                settings = spark_settings(self._order.master, self._order.conf, self.scratch, self._order.jars)
                session = _build_session(gateway, settings)
            self._order.timings.mark("session ready")
        except StreamlingError as error:
            self._session.set_exception(error)
        except BaseException as error:
            self._session.set_exception(self._translate_error(error))
        else:
            self._session.set_result(session)
            sweep()

    def _translate_error(self, error: BaseException) -> StreamlingError:
        if not self._jvm.alive():
            return self._jvm.failure("Spark could not start")
        message = _first_line(error)
        rejected = application_rejected_error(self._order.master, message)
        return rejected or StreamlingError(f"Spark could not start: {message}", cause=error)


def _ivy_settings(conf: Mapping[str, str]) -> Path | None:
    named = conf.get("spark.jars.ivySettings")
    return Path(named) if named else None


def _build_session(gateway: Gateway, settings: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    _silence_loggers()
    with SparkContext._lock:
        if SparkContext._gateway is not None:
            raise StreamlingError(
                "Spark is already running in this process, and PySpark allows only one at a time",
                remedy="stop the other SparkDriver or SparkSession first",
            )
        with _gateway_variables(gateway):
            connection = launch_gateway()  # type: ignore[no-untyped-call]
            hold_connections_once(connection._gateway_client)
            conf = SparkConf(loadDefaults=False, _jvm=connection.jvm)
            for key, value in settings.items():
                conf.set(key, value)
            try:
                context = SparkContext(conf=conf, gateway=connection)
                _accumulators(context).handle_error = lambda *_: None  # prints a trace when the JVM has exited
                context.pythonExec = settings.get("spark.pyspark.python", sys.executable)
                remove_unsafe_functions(context._jvm)
                return SparkSession(context)
            except BaseException:
                _forget_session()
                raise


@contextmanager
def _gateway_variables(gateway: Gateway) -> Iterator[None]:
    """Point PySpark to a running JVM, which is possible only through variables."""
    ours = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.secret}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]


def _hide_variables() -> dict[str, str]:
    """Remove the user's variables that affect PySpark from the environment; it reads some at every call."""
    names = [name for name in os.environ if name.startswith(("SPARK_", "PYSPARK_"))]
    return {name: os.environ.pop(name) for name in names}


def _forget_session() -> None:
    """Clear PySpark's per-process state, so that another session can be built on another JVM."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    with SparkContext._lock:
        context: Any = SparkContext._active_spark_context
        connection: Any = SparkContext._gateway
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
    if context is not None and context._accumulatorServer is not None:
        # It checks for the request only every 0.5 s: not worth waiting for.
        threading.Thread(target=_shut_down, args=(context._accumulatorServer,), daemon=True).start()
        context._accumulatorServer = context._jsc = None
    if connection is not None:
        _disconnect(connection)


def _shut_down(accumulators: Any) -> None:
    with suppress(OSError):  # it removes its socket file, which may already be gone with the scratch folder
        accumulators.shutdown()


def _disconnect(connection: Any) -> None:
    from py4j.clientserver import SHUTDOWN_FINALIZER_WORKER

    client = connection._gateway_client
    client.is_connected = False  # otherwise every Java object that is collected later tries to reach the JVM
    client.finalizer_deque.appendleft(SHUTDOWN_FINALIZER_WORKER)
    with suppress(Exception):
        connection.shutdown_callback_server()


def _accumulators(context: Any) -> Any:
    return context._accumulatorServer


def _silence_loggers() -> None:
    """Silence PySpark and Py4J, which log traces of errors that they also raise."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True
    getLogger().addFilter(_not_from_py4j)


def _not_from_py4j(record: LogRecord) -> bool:
    """Return whether a record is not from Py4J, which uses the root logger for broken connections."""
    return "py4j" not in record.pathname


def _first_line(error: BaseException) -> str:
    java: Any = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    return text.strip().partition("\n")[0] or type(error).__name__
