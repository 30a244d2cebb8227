from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from streamling.dev.services.envfile import read_env_file, write_env_file
from streamling.errors import InvalidPipeline


def test_written_variables_can_be_read_back(tmp_path: Path) -> None:
    variables = {"PLAIN": "127.0.0.1:9092", "EMPTY": "", "ODD": "a b'c\"d#e=f$g"}
    write_env_file(tmp_path / "dev.env", variables)
    assert read_env_file(tmp_path / "dev.env") == variables
    assert (tmp_path / "dev.env").stat().st_mode & 0o077 == 0


def test_a_shell_passes_the_variables_on_to_its_commands(tmp_path: Path) -> None:
    write_env_file(tmp_path / "dev.env", {"BROKERS": "127.0.0.1:9092", "ODD": "a b'c$d"})
    script = ". ./dev.env; exec sh -c 'echo \"$BROKERS $ODD\"'"
    done = subprocess.run(["sh", "-c", script], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout == "127.0.0.1:9092 a b'c$d\n"


def test_files_written_by_hand_are_understood(tmp_path: Path) -> None:
    file = tmp_path / "dev.env"
    file.write_text("# services\n\nexport A=1\n  B = 2\n".replace(" = ", "=") + "C='x y'  # with a comment\nD=\n")
    assert read_env_file(file) == {"A": "1", "B": "2", "C": "x y", "D": ""}


@pytest.mark.parametrize("line", ["A B=secret", "secret", "A=secret word", "A='secret", "=secret"])
def test_a_bad_line_is_named_but_not_shown(tmp_path: Path, line: str) -> None:
    (tmp_path / "dev.env").write_text(f"A=1\n{line}\n")
    with pytest.raises(InvalidPipeline, match=r"dev\.env:2:1: a line is not NAME=value") as error:
        read_env_file(tmp_path / "dev.env")
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"A=\xff\n", "it is not UTF-8 text")]
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "some.env"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidPipeline) as raised:
        read_env_file(path)
    (problem,) = raised.value.problems
    assert problem.message == f"the file of variables cannot be read: {reason}"
    assert (problem.file, problem.remedy) == (str(path), "check --env-file")
