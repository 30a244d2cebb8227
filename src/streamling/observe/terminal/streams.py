"""Standard output and standard error: the one place where text leaves the process.

While a command runs, both are `SafeStream`: secrets are masked and control characters escaped in all output. Rows of
print sinks are data and go to `data_output` unchanged. While a pipeline with such a sink runs, nothing else reaches
standard output: what a plugin prints goes to standard error.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, TextIO, cast

from streamling.observe.terminal.printable import printable_codes, printable_lines
from streamling.observe.terminal.status_line import hide_status_line
from streamling.redaction import redact

_data: BinaryIO | None = None


class SafeStream:
    """A text stream that shows neither secrets nor control characters other than our own colours."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        # output without colours needs no control codes
        self._printable: Callable[[str], str] = printable_codes if stream.isatty() else printable_lines

    def write(self, text: str) -> int:
        with hide_status_line(ends_line=text.endswith("\n")):
            self._stream.write(self._printable(redact(text)))
        return len(text)

    @property
    def unsafe(self) -> TextIO:
        """The stream itself."""
        return self._stream

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def terminal_of(stream: TextIO) -> TextIO:
    """Return the stream behind ``stream`` while `safe_streams` are in use."""
    return stream.unsafe if isinstance(stream, SafeStream) else stream


@contextmanager
def safe_streams() -> Iterator[None]:
    """Make standard output and error safe while the block runs."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = map(_safe, before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _safe(stream: TextIO) -> TextIO:
    # None: the process was started without it
    return stream if stream is None else cast(TextIO, SafeStream(stream))


def data_output() -> BinaryIO:
    """Return where rows are printed."""
    if _data is None and not hasattr(sys.stdout, "buffer"):
        return cast(BinaryIO, _TextOutput(sys.stdout))
    return _data or sys.stdout.buffer


class _TextOutput(io.RawIOBase):
    """Takes bytes for a text stream without a buffer, such as the output of a notebook cell."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._stream.write(bytes(data).decode("utf-8", "backslashreplace"))
        return len(data)

    def flush(self) -> None:
        self._stream.flush()


def write_data(text: str) -> None:
    """Print a line unchanged, for a program."""
    output = data_output()
    output.write(f"{text}\n".encode("utf-8", "backslashreplace"))
    output.flush()


@contextmanager
def stdout_for_data() -> Iterator[Callable[[], None]]:
    """Keep standard output for rows while the block runs; everything else printed there goes to standard error, also
    from C code and child processes. Call the yielded function to end this early."""
    reserved = _Reserved()
    try:
        yield reserved.release
    finally:
        reserved.release()


class _Reserved:
    def __init__(self) -> None:
        global _data
        self._before, self._stdout = _data, sys.stdout
        self._data: BinaryIO | None = None
        if sys.stdout is None or sys.stderr is None:  # the process was started without them
            return
        sys.stdout.flush()
        self._number = _file_number(sys.stdout)
        if self._number is None:  # captured inside this process
            self._data = sys.stdout.buffer
            sys.stdout = sys.stderr
        else:
            saved = os.dup(self._number)
            os.dup2(sys.stderr.fileno(), self._number)
            self._data = os.fdopen(saved, "wb")
        _data = self._data

    def release(self) -> None:
        """Restore standard output; further calls do nothing."""
        global _data
        data, self._data = self._data, None
        if data is None:
            return
        with suppress(ValueError, OSError):
            sys.stdout.flush()
        sys.stdout, _data = self._stdout, self._before
        with suppress(ValueError, OSError):
            data.flush()
        if self._number is not None:
            os.dup2(data.fileno(), self._number)
            with suppress(OSError):
                data.close()


def _file_number(stream: TextIO) -> int | None:
    try:
        sys.stderr.fileno()
        return stream.fileno()
    except (OSError, ValueError, io.UnsupportedOperation):
        return None
