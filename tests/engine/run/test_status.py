"""The status of a run at one moment."""

from __future__ import annotations

import pytest

from streamling.engine.run.status import sum_known, total_progress
from streamling.plugins.sources import Progress


def test_only_known_numbers_are_added():
    assert sum_known([1, None, 2]) == 3
    assert sum_known([None]) is None


@pytest.mark.parametrize(
    ("known", "total"),
    [
        ([], None),
        ([Progress(1, 4, "files")], Progress(1, 4, "files")),
        ([Progress(1, 4), Progress(5, 10)], Progress(6, 14)),
        ([Progress(4, 4), Progress(5, 10, part="b")], Progress(5, 10, part="b")),
        ([Progress(1, 4, "files"), Progress(5, 1000, part="b")], Progress(5, 1000, part="b")),
        ([Progress(4, 4), Progress(10, 10)], Progress(14, 14)),
    ],
)
def test_progress_of_several_sources_is_that_of_the_ones_that_still_run(known, total):
    """Different units are not added."""
    assert total_progress(known) == total
