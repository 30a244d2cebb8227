"""The Java classes are compiled when the package is built."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.slow

JAR = Path("src/streamling/spark/jvm/streamling.jar")


class Checkout:
    """A copy of what the package is built from, without its jar."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("java", "src"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", JAR.name))
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, folder)

    @property
    def jar(self) -> Path:
        return self.folder / JAR

    def build(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path / "checkout")


def test_classes_are_compiled_once_and_always_into_the_same_jar(checkout: Checkout) -> None:
    """A start-up archive depends on content and time of the jar: building again must not invalidate it."""
    assert checkout.build().returncode == 0
    assert checkout.jar.read_bytes() == (ROOT / JAR).read_bytes(), "run make"
    assert "streamling/json/JsonDecoder.class" in zipfile.ZipFile(checkout.jar).namelist()
    time = checkout.jar.stat().st_mtime_ns
    assert checkout.build().returncode == 0
    assert checkout.jar.stat().st_mtime_ns == time
    assert not list(checkout.jar.parent.glob(".new-*"))


def test_a_changed_source_is_another_jar(checkout: Checkout) -> None:
    (checkout.folder / "java/src/main/java/streamling/A.java").write_text("package streamling;\n\nfinal class A {}\n")
    assert checkout.build().returncode == 0
    added = {*zipfile.ZipFile(checkout.jar).namelist()} - {*zipfile.ZipFile(ROOT / JAR).namelist()}
    assert added == {"streamling/A.class"}


def test_the_error_contains_the_output_of_the_compiler_and_warnings_are_errors(checkout: Checkout) -> None:
    source = "package streamling;\n\nfinal class A {\n  java.util.List found;\n}\n"
    (checkout.folder / "java/src/main/java/streamling/A.java").write_text(source)
    done = checkout.build()
    assert done.returncode != 0
    assert "the Java classes cannot be compiled" in done.stderr
    assert "List is a raw type" in done.stderr
    assert not checkout.jar.exists()
