"""The processes that a server has started."""

from __future__ import annotations

from pathlib import Path


def children(pid: int, words: str) -> list[int]:
    """The descendants of ``pid`` whose command line contains ``words``."""
    found = []
    for child in _children(pid):
        if words in _command_line(child):
            found.append(child)
        found += children(child, words)
    return found


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
