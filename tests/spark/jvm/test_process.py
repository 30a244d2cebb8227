from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.process import Gateway, Jvm

ANSWER = """
import os, struct, sys
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
open(path + ".new", "wb").write(struct.pack("!ii", 4711, 6) + b"secret")
os.rename(path + ".new", path)
sys.stdin.read()
"""

#: its last connection closes half a second before it exits
EXITING = """
import os, socket, struct, time
path = os.environ["_PYSPARK_DRIVER_CONN_INFO_PATH"]
listening = socket.create_server(("127.0.0.1", 0))
open(path + ".new", "wb").write(struct.pack("!ii", listening.getsockname()[1], 6) + b"secret")
os.rename(path + ".new", path)
connection, _ = listening.accept()
listening.close()
connection.close()
time.sleep(0.5)
print("Terminating due to java.lang.OutOfMemoryError: Java heap space")
"""
#: closes its connections one after the other
LISTENING = EXITING.replace(
    "listening.close()\n", 'print("Terminating due to java.lang.OutOfMemoryError", flush=True)\n'
)


def shell(script: str, scratch: Path) -> Jvm:
    return Jvm(["/bin/sh", "-c", script], os.environ, scratch)


def test_the_handshake_gives_port_and_secret_and_leaves_no_file(tmp_path: Path) -> None:
    jvm = Jvm([sys.executable, "-c", ANSWER], os.environ, tmp_path)
    assert jvm.gateway() == Gateway(4711, "secret")
    assert list(tmp_path.iterdir()) == []
    assert jvm.finish(20) == 0
    jvm.close()


def test_the_secret_is_not_shown() -> None:
    assert "secret" not in repr(Gateway(1, "secret")).replace("secret=", "")


def test_it_ends_when_its_stdin_is_closed(tmp_path: Path) -> None:
    jvm = shell("cat; exit 3", tmp_path)
    assert jvm.alive()
    assert jvm.finish(20) == 3
    jvm.close()


def test_one_that_does_not_end_is_killed(tmp_path: Path) -> None:
    jvm = shell("exec sleep 600", tmp_path)
    assert jvm.finish(0.01) is None
    assert not jvm.alive()
    jvm.close()


def test_what_it_prints_is_kept_and_not_shown(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jvm = shell("echo out; echo err >&2", tmp_path)
    with pytest.raises(StreamlingError, match="Spark could not start: its JVM ended with exit status 0"):
        jvm.gateway()
    assert jvm.last_output() == "out\nerr"
    assert capfd.readouterr() == ("", "")
    jvm.kill()
    jvm.close()


def test_debug_copies_its_output_to_stderr(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jvm = Jvm(["/bin/sh", "-c", "echo out"], os.environ, tmp_path, debug=True)
    jvm.finish(20)
    jvm.close()
    assert capfd.readouterr() == ("", "out\n")


@pytest.mark.parametrize(
    ("words", "meaning", "remedy"),
    [
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", "ran out of heap", "spark.driver.memory"),
        ("Unrecognized VM option 'Nonsense'", "does not know", "spark.driver.extraJavaOptions"),
        ("Error: Could not reserve enough space for object heap", "does not fit", "spark.driver.memory"),
    ],
)
def test_known_errors_in_the_last_output_are_translated(tmp_path: Path, words: str, meaning: str, remedy: str) -> None:
    jvm = shell(f'echo "{words}"; exit 1', tmp_path)
    with pytest.raises(StreamlingError, match=meaning) as error:
        jvm.gateway()
    assert remedy in str(error.value.remedy)
    assert words in next(error.value.causes())
    jvm.kill()
    jvm.close()


@pytest.mark.parametrize("program", [EXITING, LISTENING], ids=["listens no longer", "has announced it"])
def test_a_jvm_that_is_exiting_is_waited_for(tmp_path: Path, program: str) -> None:
    jvm = Jvm([sys.executable, "-c", program], os.environ, tmp_path)
    with socket.create_connection(("127.0.0.1", jvm.gateway().port)) as connection:
        assert connection.recv(1) == b""
    jvm.wait_if_exiting()
    has_ended, failure = not jvm.alive(), jvm.failure("Spark stopped")
    jvm.kill()
    jvm.close()
    assert has_ended
    assert "the JVM ran out of heap" in str(failure)


def test_only_the_end_of_long_output_is_kept(tmp_path: Path) -> None:
    jvm = shell("seq 1 100000", tmp_path)
    jvm.finish(20)
    jvm.close()
    assert jvm.last_output(2) == "99999\n100000"
    assert len(jvm.last_output(100_000).splitlines()) == 200


def test_a_java_that_cannot_be_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamlingError, match="/nowhere/java"):
        Jvm(["/nowhere/java"], os.environ, tmp_path)
