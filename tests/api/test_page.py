"""The examples of docs/python-api.md run as they are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import command_environment
from tests.docs.blocks import Block, blocks_of
from tests.paths import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BLOCKS = blocks_of(ROOT / "docs" / "python-api.md")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for block in BLOCKS:
        if "file" in block.comments:
            (tmp_path / block.comments["file"]).write_text(block.text)
    return tmp_path


def shown_scripts() -> list[Block]:
    return [block for block in BLOCKS if block.language == "python" and "file" not in block.comments]


def python(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=command_environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_run_one_after_the_other(folder: Path) -> None:
    scripts = shown_scripts()
    assert len(scripts) >= 4
    (folder / "page.py").write_text("\n".join(block.text for block in scripts))
    python(folder, "page.py")


def test_the_example_for_pytest_passes(folder: Path) -> None:
    assert "2 passed" in python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pipeline.py")
