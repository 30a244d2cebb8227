"""A standalone Spark cluster on loopback, started from PySpark's own jars."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamling.spark.jvm.class_path import spark_home, spark_jars
from streamling.spark.jvm.command import jvm_command
from streamling.spark.jvm.environment import jvm_environment
from streamling.spark.jvm.executors import executor_environment
from streamling.spark.jvm.java import find_java
from tests.harness.pipelines import eventually

_HOST = "127.0.0.1"
_START_SECONDS = 120
#: of master and workers, as Spark's own scripts would start them
_TUNING = ("-XX:TieredStopAtLevel=1",)


class Cluster:
    """A master, and workers that come and go."""

    def __init__(self, folder: Path, env: Mapping[str, str], cores: int, memory: str) -> None:
        self._folder = folder
        self._env = dict(env)
        self._cores = cores
        self._memory = memory
        self._port = _free_port()
        self.master = f"spark://{_HOST}:{self._port}"
        self._log = folder / "master.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        """The master and the first workers; returns when they know each other."""
        arguments = ("--host", _HOST, "--port", str(self._port), "--webui-port", "0")
        self._processes.append(_deployed("master.Master", arguments, self._env, self._log))
        self._wait_for("I have been elected leader", 1)
        for _ in range(workers):
            self.add_worker()
        self.wait_for_workers()

    @property
    def workers(self) -> list[subprocess.Popen[bytes]]:
        """Those that were added, alive or not, in that order."""
        return self._processes[1:]

    def add_worker(self) -> subprocess.Popen[bytes]:
        """Returns at once; `wait_for_workers` waits until the master knows it."""
        number = len(self._processes)
        arguments = ("--host", _HOST, "--webui-port", "0", "-d", str(self._folder / f"worker-{number}"))
        size = ("-c", str(self._cores), "-m", self._memory, self.master)
        worker = _deployed("worker.Worker", (*arguments, *size), self._env, self._folder / f"worker-{number}.log")
        self._processes.append(worker)
        return worker

    def wait_for_workers(self) -> None:
        """Until every worker that was ever added has registered."""
        self._wait_for("Registering worker", len(self.workers))

    def _wait_for(self, words: str, times: int) -> None:
        """Until the master has logged these words as many times."""

        def log() -> str:
            return self._log.read_text(errors="replace")

        eventually(lambda: log().count(words) >= times, _START_SECONDS, log, self._processes[0])

    def stop(self) -> None:
        """Master and workers; a worker ends its executors before itself."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def running_cluster(workers: int = 2, cores: int = 1, memory: str = "1024m", **variables: str) -> Iterator[Cluster]:
    """A master and its workers, which see these environment variables. Everything has ended when the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-cluster-")))
        env = jvm_environment("local-cluster", os.environ) | executor_environment(find_java(os.environ), folder)
        cluster = Cluster(folder, {**env, **variables}, cores, memory)
        stack.callback(cluster.stop)
        cluster.start(workers)
        yield cluster


def _deployed(what: str, arguments: tuple[str, ...], env: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    command = jvm_command(
        find_java(os.environ), {"spark.driver.memory": "256m"}, tuple(spark_jars(spark_home())), debug=True
    )
    *java, _gateway = command.line(_TUNING)
    with log.open("wb") as output:
        return subprocess.Popen(
            [*java, f"org.apache.spark.deploy.{what}", *arguments],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
