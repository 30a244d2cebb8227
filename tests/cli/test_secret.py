"""`secret`: the store in a file."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Project, clean_environment, command_line
from tests.harness.terminal import Terminal

VALUE = "very-secret-6b1f"


@pytest.fixture
def home(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("HOME", str(project.folder / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return project


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def stored(project: Project, monkeypatch: pytest.MonkeyPatch, name: str, data: bytes) -> None:
    give(monkeypatch, data)
    result = project.call("secret", "set", name)
    assert (result.code, result.out, result.err) == (0, "", f"stored the secret '{name}'\n")


def test_a_secret_is_stored_used_listed_and_deleted(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("pipeline.yaml", Path("pipeline.yaml").read_text().replace("path: orders", "path: ${secret:FOLDER}"))
    assert "the secret 'FOLDER' is not configured" in home.call("validate", "--static").err
    stored(home, monkeypatch, "folder", b"orders\n")
    assert home.call("validate", "--static").code == 0
    assert home.call("secret", "list").out == "folder\n"
    assert json.loads(home.call("secret", "list", "--json").out) == ["folder"]
    assert home.call("secret", "delete", "folder").err == "deleted the secret 'folder'\n"
    missing = home.call("secret", "delete", "folder")
    assert (missing.code, "there is no secret 'folder'" in missing.err) == (1, True)
    assert home.call("secret", "list").err == "there are no secrets\n"


@pytest.mark.parametrize(
    ("data", "value"), [(b"abcd\n", "abcd"), (b"abcd", "abcd"), (b"ab\r\n", "ab"), (b"a\nb\n\n", "a\nb\n")]
)
def test_one_line_break_at_the_end_is_not_part_of_the_value(
    home: Project, monkeypatch: pytest.MonkeyPatch, data: bytes, value: str
) -> None:
    from streamling.engine.launch.launcher import Launcher
    from streamling.pipeline.secrets.store import SecretStore

    stored(home, monkeypatch, "a", data)
    launcher = Launcher.load()
    assert SecretStore.of(launcher.config, launcher.env).get("a") == value


@pytest.mark.parametrize(("data", "error"), [(b"", "is empty"), (b"\xff\xfe", "is not UTF-8 text")])
def test_values_that_cannot_be_stored_are_refused(
    home: Project, monkeypatch: pytest.MonkeyPatch, data: bytes, error: str
) -> None:
    give(monkeypatch, data)
    result = home.call("secret", "set", "a")
    assert (result.code, f"the value of the secret 'a' {error}" in result.err) == (1, True)
    assert not (home.folder / "secrets.enc").exists()


def test_a_value_cannot_be_an_argument(home: Project) -> None:
    result = home.call("secret", "set", "a", VALUE)
    assert result.code == 2


def test_a_terminal_asks_twice_and_shows_nothing(home: Project) -> None:
    env = {**clean_environment(), "HOME": str(home.folder / "home")}
    with Terminal(command_line("secret", "set", "token"), cwd=home.folder, env=env) as terminal:
        terminal.wait_for(re.escape("Value of 'token': "))
        terminal.type(f"{VALUE}\n")
        terminal.wait_for(re.escape("Repeat for confirmation: "))
        terminal.type(f"{VALUE}\n")
        assert terminal.end() == 0
    assert "stored the secret 'token'" in terminal.sent
    assert VALUE not in terminal.sent
    assert home.call("secret", "list").out == "token\n"


def test_rotate_changes_the_key(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(home, monkeypatch, "a", VALUE.encode())
    stored(home, monkeypatch, "b", VALUE.encode())
    before = json.loads((home.folder / "secrets.enc").read_text())
    result = home.call("secret", "rotate")
    assert (result.code, result.err) == (0, "encrypted 2 secrets with a new key\n")
    after = json.loads((home.folder / "secrets.enc").read_text())
    assert before["key"] != after["key"]
    assert len((home.folder / "home/.config/streamling/secrets.key").read_text().splitlines()) == 2


def test_the_path_is_a_setting(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    home.write("config.yaml", "secret_store: {path: private/mine.enc, key_file: private/mine.key}\n")
    stored(home, monkeypatch, "a", VALUE.encode())
    assert {"mine.enc", "mine.key"} <= {file.name for file in (home.folder / "private").iterdir()}


def test_errors_of_the_store_are_sentences(home: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(home, monkeypatch, "a", VALUE.encode())
    (home.folder / "home/.config/streamling/secrets.key").chmod(0o644)
    result = home.call("secret", "rotate")
    assert result.code == 1
    assert "secrets.key has the permissions 644: users other than its owner can access it" in result.err
    assert "help: chmod 600 " in result.err
