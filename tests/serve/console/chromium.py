"""The browser of the tests: Debian's Chromium, installed when it is missing."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


def chromium() -> str:
    """The path of the browser."""
    found = _found()
    if found is not None:
        return found
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError("the tests of the console need Chromium: install the package 'chromium'")
    # several workers of pytest-xdist may arrive here, and apt runs once at a time
    with (Path(tempfile.gettempdir()) / "streamling-chromium.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _found() is None:
            _install()
    found = _found()
    if found is None:
        raise RuntimeError("apt-get has installed the package 'chromium', which contains no browser")
    return found


def _found() -> str | None:
    return next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)


def _install() -> None:
    install = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
    quiet = {"env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}, "capture_output": True, "text": True}
    if subprocess.run(install, **quiet).returncode == 0:
        return
    subprocess.run(["apt-get", "update"], **quiet)
    done = subprocess.run(install, **quiet)
    if done.returncode != 0:
        raise RuntimeError(f"apt-get cannot install the package 'chromium':\n{done.stdout}{done.stderr}")


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless browser with a profile of its own."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), headless=True, args=list(_FLAGS))
        try:
            yield started
        finally:
            started.close()
