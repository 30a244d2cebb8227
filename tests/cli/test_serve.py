"""`serve`: what is reported before a JVM starts. The running server is tested in `tests/serve`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamling.cli.errors import ExitCode
from streamling.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def used_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def serve(*options: str, **variables: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "streamling", "serve", *options],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stderr


def test_an_address_that_others_reach_needs_a_token():
    code, message = serve("--listen", "0.0.0.0:0")
    assert code == ExitCode.FAILED
    assert "serve.listen is 0.0.0.0:0, which other machines can reach, but serve.tokens is empty" in message
    assert "help: add a token, or listen on 127.0.0.1" in message


def test_a_port_in_use_is_an_error(used_port):
    code, message = serve("--listen", f"127.0.0.1:{used_port}")
    assert code == ExitCode.FAILED
    assert f"the API cannot listen on 127.0.0.1:{used_port}: Address already in use\n" in message


def test_a_folder_that_does_not_exist_is_an_error(folder):
    code, message = serve("--listen", "127.0.0.1:0", "--dir", "missing")
    assert code == ExitCode.FAILED
    assert f"the folder of pipeline files {folder}/missing does not exist" in message


def test_a_bad_address_is_wrong_usage(capsys):
    assert main(["serve", "--listen", "nonsense"]) == ExitCode.USAGE
    assert "'nonsense' is not an address and a port" in capsys.readouterr().err


def test_a_bad_setting_is_reported(folder):
    (folder / "config.yaml").write_text("serve: {requests_per_minute: none}\n")
    code, message = serve()
    assert code == ExitCode.CONFIG
    assert "serve.requests_per_minute is 'none', expected a whole number of at least 1" in message
