"""CPU time and memory include child processes."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.usage import usage

_BUSY = "x = bytearray(40_000_000)\nfor i in range(3_000_000): pass\nprint(flush=True)\ninput()"
_PARENT = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {_BUSY!r}])"


def test_child_processes_are_counted():
    with subprocess.Popen([sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        whole = usage(process.pid)
        process.communicate(b"\n")
    assert whole.cpu_seconds > 0.02
    assert whole.memory_mb > whole.own_mb + 40


def test_a_process_that_has_ended_uses_nothing():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert usage(process.pid).memory_mb == 0.0
    assert usage(os.getpid()).memory_mb > 0
