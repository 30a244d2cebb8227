"""The wheel is all a user needs: nothing is taken from the repository."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.glob("*.whl")
    return built


def test_every_file_of_the_package_is_in_the_wheel(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if name.startswith("streamling/")}
    tracked = subprocess.run(
        ["git", "ls-files", "src/streamling"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    links = {name for name in tracked if (ROOT / name).is_symlink()}
    assert {name.removeprefix("src/") for name in tracked} - {name.removeprefix("src/") for name in links} <= packed
    assert "streamling/spark/jvm/streamling.jar" in packed


def test_an_installed_wheel_writes_a_first_pipeline_that_is_valid_and_runs(wheel, tmp_path):
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    env = {**os.environ, "PYTHONPATH": str(site)}

    def streamling(*args: str, cwd: Path) -> str:
        command = [sys.executable, "-m", "streamling", *args]
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-c", "import streamling; print(streamling.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert str(site) in found, "the test must run the wheel, not the repository"
    streamling("new", "first", cwd=tmp_path)
    assert "is valid" in streamling("validate", "--static", "pipeline.yaml", cwd=tmp_path / "first")
    assert '"$schema"' in streamling("schema", cwd=tmp_path)
    assert len(streamling("run", "pipeline.yaml", cwd=tmp_path / "first").splitlines()) == 5
