"""The same action in several threads at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable


def failures_of(count: int, action: Callable[[int], object]) -> list[Exception]:
    """Run ``action`` with the numbers up to ``count``, all at once, and return the exceptions."""
    failures: list[Exception] = []
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        try:
            action(number)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures
