"""What the address of a Spark master says about where things run."""

from __future__ import annotations

import re


def is_local(master: str) -> bool:
    """Return whether driver and executor are one process."""
    return bool(re.fullmatch(r"local(\[.*\])?", master))


def on_this_machine(master: str) -> bool:
    """Return whether the driver need not be reachable from outside this machine."""
    return master.startswith("local")


def local_cores(master: str, available: int) -> int:
    """Return how many tasks a local master runs at a time."""
    written = re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", master)
    if not written:
        return 1
    return available if written[1] == "*" else int(written[1])
