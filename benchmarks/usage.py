"""CPU time and memory of a process and all its descendants, as reported by Linux."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")


def available() -> bool:
    """Return whether this system reports them."""
    return (_PROC / "self" / "stat").exists()


@dataclass(frozen=True)
class Usage:
    """Of a process and its descendants."""

    cpu_seconds: float
    memory_mb: float
    #: of the first process alone
    own_mb: float


def usage(pid: int) -> Usage:
    """Return what ``pid`` and its descendants have used so far and use now."""
    stats = _stats()
    counted = _family(pid, stats)
    ticks = sum(int(stats[one][11]) + int(stats[one][12]) for one in counted)
    held = {one: int(stats[one][21]) * os.sysconf("SC_PAGE_SIZE") / 1e6 for one in counted}
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), sum(held.values()), held.get(pid, 0.0))


def _stats() -> dict[int, list[str]]:
    """Return the fields after the name, which may contain spaces and parentheses: state, parent, …"""
    found = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended in the meantime
    return found


def family(pid: int) -> set[int]:
    """Return ``pid`` and its descendants."""
    return _family(pid, _stats())


def _family(pid: int, stats: dict[int, list[str]]) -> set[int]:
    parents = {child: int(fields[1]) for child, fields in stats.items()}
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found & parents.keys()
