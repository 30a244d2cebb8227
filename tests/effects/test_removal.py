"""The tests that prove settings fail without them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.effects.proofs import ROOT
from tests.effects.removal import SHARE_VARIABLE

#: JVMs, servers and long tests take half an hour
_FAST = "not spark and not services and not slow"


#: A test that fails usually waits for its time limit: several processes wait at the same time.
_PROCESSES = 4


def run(*options: str, share: str = "0/1") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *options, "-p", "tests.effects.removal"]
    environment = {**os.environ, SHARE_VARIABLE: share}
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, env=environment)


@pytest.mark.parametrize(
    ("tests", "processes"), [(_FAST, _PROCESSES), pytest.param(f"not ({_FAST})", 1, marks=pytest.mark.soak)]
)
def test_a_test_that_proves_a_setting_fails_without_it(tests, processes):
    with ThreadPoolExecutor(processes) as pool:
        shares = [f"{number}/{processes}" for number in range(processes)]
        results = list(pool.map(lambda share: run("-m", tests, share=share), shares))
    for result in results:
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
