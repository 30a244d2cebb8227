"""A real terminal for a command: a pseudo-terminal, and what a person would see on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.harness.pipelines import eventually

_STEPS = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)|(\x1b)")


class Terminal:
    """A command whose standard streams are a terminal; ``stdout`` may go elsewhere."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        columns: int = 120,
        stdout: int | None = None,
    ) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.process = subprocess.Popen(
            command, cwd=cwd, env={**env, "TERM": env.get("TERM", "xterm")},
            stdin=slave, stdout=slave if stdout is None else stdout, stderr=slave, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._read = bytearray()
        self._reader = threading.Thread(target=self._collect, daemon=True)
        self._reader.start()

    def _collect(self) -> None:
        while True:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # the other side is closed
                return
            if not data:
                return
            self._read += data

    @property
    def sent(self) -> str:
        """Everything that came, with its codes."""
        return self._read.decode("utf-8", "replace")

    def wait_for(self, pattern: str, seconds: float = 60) -> None:
        """Until ``pattern`` has been on the screen."""
        eventually(lambda: re.search(pattern, self.sent) or self.process.poll() is not None, seconds)
        assert re.search(pattern, self.sent), self.sent

    def type(self, text: str) -> None:
        """What a person types."""
        os.write(self._master, text.encode())

    def end(self, number: int | None = None) -> int:
        """Send a signal, wait for the end. Returns the exit code."""
        if number is not None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._reader.join(10)
        return code

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def screen(self) -> list[str]:
        """Return the lines that are left on the screen."""
        return shown(self.sent)


def shown(sent: str) -> list[str]:
    """Return the lines that a terminal shows after ``sent``: carriage returns, line breaks and erasing are
    understood."""
    lines, column = [""], 0
    for codes, command, control, text, _ in _STEPS.findall(sent):
        if command == "K" and codes in ("", "0"):
            lines[-1] = lines[-1][:column]
        elif control == "\r":
            column = 0
        elif control == "\n":
            lines.append("")
        elif text:
            lines[-1] = lines[-1][:column] + text + lines[-1][column + len(text) :]
            column += len(text)
    return lines if lines[-1] else lines[:-1]
