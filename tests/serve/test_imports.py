"""`streamling run` does not pay for the server."""

from __future__ import annotations

import subprocess
import sys

CHECK = """
import sys
import streamling.cli.run, streamling.cli.main
from streamling.engine.launch.launcher import Launcher
from pathlib import Path
text = "sources: {a: {type: kafka, topic: t}}\\nsinks: {b: {type: print, from: a}}"
Launcher.load(env={}, cwd=Path.cwd()).parse(text, "a.yaml")
servers = ("fastapi", "starlette", "uvicorn", "cryptography", "streamling.serve", "streamling.admin")
print(sorted(name for name in sys.modules if name.startswith(servers)))
"""


def test_a_run_imports_nothing_of_the_server_but_its_settings(tmp_path):
    done = subprocess.run([sys.executable, "-c", CHECK], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['streamling.serve', 'streamling.serve.config']"
