"""Which executor reads which files."""

from __future__ import annotations

import pytest

from streamling.connectors.file.executors import partition_files
from streamling.connectors.file.storage import File


def files(*sizes: int) -> list[File]:
    return [File(f"/{number}", str(number), size, 0) for number, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "shares", "expected"),
    [
        ((10, 10), 2, [[0], [1]]),
        ((1, 2, 3, 4), 2, [[0, 3], [1, 2]]),
        ((100, 1, 1, 1), 2, [[0], [1, 2, 3]]),
        ((3, 1, 2), 1, [[0, 1, 2]]),
        ((5, 5, 5), 3, [[0], [1], [2]]),
    ],
)
def test_tasks_get_similar_shares_and_files_keep_their_order(sizes, shares, expected):
    found = partition_files(files(*sizes), shares)
    assert [[int(file.key) for file in share] for share in found] == expected
