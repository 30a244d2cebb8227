"""The Spark JVM as a child process: start, handshake, output, exit."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from logging import getLogger
from pathlib import Path
from typing import IO

from streamling.errors import StreamlingError

_log = getLogger("streamling.spark")

_KEPT_LINES = 200
_POLL_SECONDS = 0.005
#: no machine is that slow; a JVM that hangs must not hang the user
_HANDSHAKE_SECONDS = 120
#: from the first connection that a JVM closes to signs that it exits
_NOTICE_SECONDS = 0.2
#: from the last connection of a JVM that exits to its exit status, on a busy machine
_EXIT_SECONDS = 10

#: what Java prints before it exits because of -XX:+ExitOnOutOfMemoryError
_LAST_WORDS = "Terminating due to java.lang.OutOfMemoryError"

_EXPLANATIONS = (
    ("OutOfMemoryError", "the JVM ran out of heap", "raise spark.driver.memory in spark.conf"),
    ("Could not reserve enough space", "the heap does not fit in memory", "lower spark.driver.memory"),
    ("Invalid maximum heap size", "the heap size is not valid", "correct spark.driver.memory in spark.conf"),
    (
        "Unrecognized VM option",
        "Java does not know one of its options",
        "check spark.driver.extraJavaOptions",
    ),
    ("Unrecognized option", "Java does not know one of its options", "check spark.driver.extraJavaOptions"),
    (
        "UnsupportedClassVersionError",
        "Java is too old for Spark",
        "use Java 17, 21 or 25; see streamling doctor",
    ),
    ("No space left on device", "the disk is full", "free space in the temporary folder or set TMPDIR"),
)


@dataclass(frozen=True)
class Gateway:
    """The loopback address where the JVM listens for PySpark, and the secret for it."""

    port: int
    secret: str = field(repr=False)


class Jvm:
    """A running JVM with PySpark's gateway in it.

    It exits when this process ends, for whatever reason: the gateway reads its stdin, and the pipe closes with this
    process.
    """

    def __init__(
        self,
        line: Sequence[str],
        env: Mapping[str, str],
        scratch: Path,
        *,
        debug: bool = False,
        locks: Sequence[int] = (),
    ) -> None:
        """``locks`` are open files with locks that the JVM inherits and holds until it exits."""
        self._info = scratch / "gateway"
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._debug = debug
        self._gateway: Gateway | None = None
        try:
            self.process = subprocess.Popen(
                line,
                env={**env, "_PYSPARK_DRIVER_CONN_INFO_PATH": str(self._info)},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal reaches the whole process group; only this process decides when Spark stops.
                start_new_session=True,
                pass_fds=tuple(locks),
            )
        except OSError as error:
            raise StreamlingError(f"cannot start Java at {line[0]}", cause=error) from error
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), name="spark-log", daemon=True)
        self._reader.start()

    def gateway(self) -> Gateway:
        """Wait until the JVM listens. Raises if it exits or hangs."""
        deadline = time.monotonic() + _HANDSHAKE_SECONDS
        while not self._info.exists():
            if not self.alive():
                raise self.failure("Spark could not start")
            if time.monotonic() > deadline:
                self.kill()
                raise self.failure(f"Spark did not respond within {_HANDSHAKE_SECONDS} s")
            time.sleep(_POLL_SECONDS)
        content = self._info.read_bytes()
        self._info.unlink()
        port, length = struct.unpack_from("!ii", content)
        self._gateway = Gateway(port, content[8 : 8 + length].decode())
        return self._gateway

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait_if_exiting(self) -> None:
        """Wait for the exit status of a JVM that is about to have one: its connections close before, and whoever
        notices a closed connection asks at once whether the JVM has ended."""
        deadline = time.monotonic() + _NOTICE_SECONDS
        while self._gateway is not None and self.alive() and time.monotonic() < deadline:
            if self._is_exiting(self._gateway):
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(_EXIT_SECONDS)
                return
            time.sleep(_POLL_SECONDS)

    def _is_exiting(self, gateway: Gateway) -> bool:
        return _LAST_WORDS in self.last_output() or not _listens(gateway.port)

    def failure(self, what: str) -> StreamlingError:
        """Return an error that says how the JVM ended, with its last output."""
        if not self.alive():
            self._reader.join(timeout=1)
        words = self.last_output()
        for pattern, meaning, remedy in _EXPLANATIONS:
            if pattern in words:
                cause = words[words.rfind("\n", 0, words.index(pattern)) + 1 :]
                return StreamlingError(f"{what}: {meaning}", cause=RuntimeError(cause), remedy=remedy)
        status = self.process.poll()
        end = "" if status is None else f"its JVM ended with {_ending(status)}"
        return StreamlingError(
            f"{what}: {end}" if end else what,
            cause=RuntimeError(words) if words else None,
            remedy="run streamling doctor, or run again with --debug to see all output of Java",
        )

    def last_output(self, lines: int = 15) -> str:
        """Return the end of what the JVM printed."""
        return "\n".join(list(self._lines)[-lines:])

    def finish(self, seconds: float) -> int | None:
        """Ask the JVM to exit and wait; kill it after ``seconds``. Returns its exit status."""
        self._close_stdin()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def kill(self) -> None:
        """Kill the JVM immediately."""
        self.process.kill()
        self.process.wait()
        self._close_stdin()

    def close(self) -> None:
        """Release the pipes of a JVM that has ended."""
        self._reader.join(timeout=1)
        if self.process.stdout is not None and not self._reader.is_alive():
            self.process.stdout.close()

    def _close_stdin(self) -> None:
        if self.process.stdin is not None:
            with suppress(BrokenPipeError):
                self.process.stdin.close()

    def _read(self, stream: IO[bytes]) -> None:
        for raw in stream:
            line = raw.decode(errors="replace").rstrip()
            self._lines.append(line)
            if self._debug:
                print(line, file=sys.stderr)
            else:
                _log.debug("%s", line)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"
