"""A standalone Spark cluster on loopback, started from PySpark's own jars."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from streamling.engine.class_path import spark_home, spark_jars
from streamling.engine.command import jvm_command
from streamling.engine.environment import jvm_environment
from streamling.engine.executors import executor_environment
from streamling.engine.java import find_java

_HOST = "127.0.0.1"
_START_SECONDS = 120


@contextmanager
def standalone_cluster(workers: int = 2, cores: int = 1, memory: str = "1024m") -> Iterator[str]:
    """A master and its workers; gives the master's address. Everything has ended when the block ends."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="spark-cluster-")))
        env = jvm_environment("local-cluster", os.environ) | executor_environment(find_java(os.environ), folder)
        port = _free_port()
        master = ("master.Master", "--host", _HOST, "--port", str(port), "--webui-port", "0")
        log = stack.enter_context(_deployed(master, env, folder / "master.log"))
        _wait_for(log, "I have been elected leader", 1)
        for number in range(workers):
            work = folder / f"worker-{number}"
            worker = ("worker.Worker", "--host", _HOST, "--webui-port", "0", "-d", str(work), "-c", str(cores))
            arguments = (*worker, "-m", memory, f"spark://{_HOST}:{port}")
            stack.enter_context(_deployed(arguments, env, folder / f"worker-{number}.log"))
        _wait_for(log, "Registering worker", workers)
        yield f"spark://{_HOST}:{port}"


@contextmanager
def _deployed(arguments: tuple[str, ...], env: dict[str, str], log: Path) -> Iterator[Path]:
    command = jvm_command(
        find_java(os.environ), {"spark.driver.memory": "256m"}, tuple(spark_jars(spark_home())), debug=True
    )
    *java, _gateway = command.line()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*java, f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        yield log
    finally:
        process.terminate()  # a worker ends its executors before itself
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(log: Path, words: str, times: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while log.read_text(errors="replace").count(words) < times:
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
