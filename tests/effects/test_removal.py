"""The tests that prove settings fail without them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.effects.proofs import ROOT

#: JVMs, servers and long tests take half an hour
_FAST = "not spark and not services and not slow"


def run(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *options, "-p", "tests.effects.removal"]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


@pytest.mark.parametrize("tests", [_FAST, pytest.param(f"not ({_FAST})", marks=pytest.mark.soak)])
def test_a_test_that_proves_a_setting_fails_without_it(tests):
    result = run("-m", tests)
    assert result.returncode == 0, result.stdout[-5000:]
    assert "settings are proven by a test that fails without them" in result.stdout


_CLAIM = """
from tests.effects import nodes
from tests.effects.proofs import By

nodes.PROOFS["sink memory parallelism"] = By("tests/connectors/test_memory.py::test_exclude_gs_op_drops_the_operation")
"""


def test_a_test_that_passes_without_its_setting_is_reported(tmp_path, monkeypatch):
    (tmp_path / "claim.py").write_text(_CLAIM)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = run("-p", "claim", "tests/connectors/test_memory.py")
    assert result.returncode == 1
    assert "not proven: sink memory parallelism" in result.stdout
    assert "1 settings are proven" in result.stdout
