"""The duration of fuzz tests, and how to repeat one of their rounds."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

SECONDS = float(os.environ.get("STREAMLING_TEST_FUZZ_SECONDS", "2"))
FIRST_SEED = int(os.environ.get("STREAMLING_TEST_SEED", "20261116"))


def rounds(seconds: float = SECONDS) -> Iterator[random.Random]:
    """One seeded generator per round until the time is up, at least one."""
    end = time.monotonic() + seconds
    seed = FIRST_SEED
    while seed == FIRST_SEED or time.monotonic() < end:
        print(f"STREAMLING_TEST_SEED={seed}")
        yield random.Random(seed)
        seed += 1
