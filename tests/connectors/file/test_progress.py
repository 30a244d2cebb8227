"""Positions of the file source: what is done, what is pending, what is stored."""

from __future__ import annotations

import json
import random

import pytest

from streamling.connectors.file.progress import PAGE_FILES, ProcessedFiles, ProcessedRanges
from streamling.connectors.file.storage import File
from streamling.plugins.sources import Position

REF = "in"
PROGRESS, WATERMARK = f"{REF}:bounded_progress", f"{REF}:watermark"


def file(path: str, mtime_ms: int = 0, size: int = 1) -> File:
    return File(path, path.lstrip("/"), size, mtime_ms * 1_000_000)


def paths(files: list[File]) -> list[str]:
    return [file.path for file in files]


def test_ranges_join_if_no_listed_path_is_between_them() -> None:
    listing = [file(f"/d/{name}") for name in "abcdef"]
    ranges = ProcessedRanges(REF, {})
    ranges.pending(listing)
    assert ranges.add([listing[0], listing[2]])[PROGRESS] == {
        "completed": [{"first": "d/a", "last": "d/a"}, {"first": "d/c", "last": "d/c"}]
    }
    assert ranges.add([listing[1]])[PROGRESS] == {"completed": [{"first": "d/a", "last": "d/c"}]}
    assert paths(ProcessedRanges(REF, ranges.position).pending(listing)) == ["/d/d", "/d/e", "/d/f"]


def test_a_path_inside_a_completed_range_is_never_read() -> None:
    stored = {PROGRESS: {"completed": [{"first": "/d/a", "last": "/d/c"}]}}
    assert paths(ProcessedRanges(REF, stored).pending([file("/d/a"), file("/d/b"), file("/d/d")])) == ["/d/d"]


def test_ranges_of_another_folder_are_not_joined_with_those_of_this_one() -> None:
    stored = {PROGRESS: {"completed": [{"first": "old/a", "last": "old/b"}]}}
    ranges = ProcessedRanges(REF, stored)
    listing = [file("/new/m"), file("/new/n")]
    position = ranges.add(ranges.pending(listing))
    completed = [{"first": "new/m", "last": "new/n"}, {"first": "old/a", "last": "old/b"}]
    assert position == {PROGRESS: {"completed": completed}}
    assert paths(ProcessedRanges(REF, position).pending([*listing, file("/new/o")])) == ["/new/o"]


def test_the_ledger_finds_new_older_changed_and_grown_files() -> None:
    ledger = ProcessedFiles(REF, {})
    ledger.add([file("/a", 100), file("/b", 100)])
    listing = [
        file("/a", 100),
        file("/b", 100, size=2),
        file("/c", 5),
        file("/d", 200),
        file("/empty", 300, size=0),
    ]
    assert paths(ledger.pending(listing)) == ["/c", "/b", "/d"]


def test_the_watermark_of_the_rust_implementation_is_maintained() -> None:
    ledger = ProcessedFiles(REF, {})
    ledger.add([file("/a", 100), file("/b", 100), file("/c", 50)])
    assert ledger.position[WATERMARK] == {
        "last_modified_ms": 100,
        "boundary_paths": ["a", "b"],
        "committed_ahead": [],
    }
    assert ledger.add([file("/d", 70)])[WATERMARK]["last_modified_ms"] == 100
    assert ledger.add([file("/e", 100)])[WATERMARK]["boundary_paths"] == ["a", "b", "e"]


def test_files_read_by_the_rust_implementation_count_as_done_at_the_first_start() -> None:
    stored = {
        WATERMARK: {"last_modified_ms": 100, "boundary_paths": ["d/at"], "committed_ahead": ["d/ahead"]},
    }
    listing = [
        file("/d/before", 99),
        file("/d/at", 100),
        file("/d/late", 100),
        file("/d/ahead", 300),
        file("/d/new", 200),
    ]
    position = ProcessedFiles(REF, stored).import_watermark(listing)
    assert paths(ProcessedFiles(REF, position).pending(listing)) == ["/d/late", "/d/new"]
    # From here on an older timestamp hides nothing.
    assert ProcessedFiles(REF, position).import_watermark([*listing, file("/d/older", 1)]) == position
    assert paths(ProcessedFiles(REF, position).pending([file("/d/older", 1)])) == ["/d/older"]


def test_many_files_of_the_rust_implementation_are_all_imported() -> None:
    listing = [file(f"/{i:05}", i) for i in range(5 * PAGE_FILES)]
    stored = {WATERMARK: {"last_modified_ms": 10**6, "boundary_paths": [], "committed_ahead": []}}
    assert ProcessedFiles(REF, ProcessedFiles(REF, stored).import_watermark(listing)).pending(listing) == []


def test_an_empty_folder_at_the_first_start_also_imports_the_watermark() -> None:
    position = ProcessedFiles(
        REF, {WATERMARK: {"last_modified_ms": 100, "boundary_paths": [], "committed_ahead": []}}
    ).import_watermark([])
    stored = json.loads(json.dumps(position))
    assert paths(
        ProcessedFiles(REF, ProcessedFiles(REF, stored).import_watermark([file("/old", 1)])).pending([file("/old", 1)])
    ) == ["/old"]


def test_a_step_changes_one_page_and_no_earlier_position() -> None:
    ledger = ProcessedFiles(REF, {})
    listing = [file(f"/{i:05}", i) for i in range(3 * PAGE_FILES)]
    ledger.pending(listing)
    before = ledger.add(listing)
    copy = json.dumps(before)
    after = ledger.add([file("/next", 1)])
    changed = {key for key in after if after[key] != before.get(key)}
    assert changed <= {f"{REF}:seen:{n}" for n in range(10)} | {WATERMARK}
    assert len(changed - {WATERMARK}) == 1
    assert json.dumps(before) == copy


def test_the_state_of_one_step_stays_small_if_all_files_have_the_same_time() -> None:
    ledger = ProcessedFiles(REF, {})
    listing = [file(f"/{i:05}", 1) for i in range(5 * PAGE_FILES)]
    ledger.pending(listing)
    before = ledger.add(listing[:-1])
    after = ledger.add(listing[-1:])
    changed = {key: after[key] for key in after if after[key] != before.get(key)}
    assert len(json.dumps(changed)) < 100 * PAGE_FILES


def test_pages_of_deleted_files_are_dropped() -> None:
    ledger, stored = ProcessedFiles(REF, {}), {}
    for day in range(20):
        today = [file(f"/{day}/{i:03}", day) for i in range(PAGE_FILES)]
        assert ledger.pending(today) == today  # yesterday's have been deleted
        stored = apply(stored, ledger.add(today))
    assert len([key for key in stored if ":seen:" in key]) <= 4
    assert ProcessedFiles(REF, stored).pending(today) == []


def apply(stored: Position, position: Position) -> dict[str, object]:
    """Return what a backend holds after storing a position."""
    merged = {**stored, **json.loads(json.dumps(position))}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.mark.parametrize("seed", range(200))
def test_with_random_arrivals_and_restarts_no_file_is_skipped_or_read_twice(
    seed: int,
) -> None:
    rng = random.Random(seed)
    folder: dict[str, File] = {}
    stored: Position = {}
    position: Position = {}
    ledger = ProcessedFiles(REF, position)
    read: set[File] = set()
    read_and_stored: set[File] = set()
    clock = 1000
    for _ in range(60):
        clock += rng.randint(0, 2)
        action = rng.random()
        if action < 0.45:  # new, rewritten or backdated
            for _ in range(rng.choice([1, 1, 3, 40])):
                path = f"/d/{rng.randint(0, 300)}"
                folder[path] = file(path, rng.choice([clock, rng.randint(0, clock)]), rng.randint(0, 3))
        elif action < 0.5 and folder:
            del folder[rng.choice(list(folder))]
        elif action < 0.8:
            pending = ledger.pending(sorted(folder.values(), key=lambda f: f.path))
            taken = pending[: rng.randint(1, 50)]
            assert not read.intersection(taken), f"seed {seed}: read twice without a restart"
            position = ledger.add(taken)
            read.update(taken)
        elif action < 0.92:
            stored = apply(stored, position)
            read_and_stored = set(read)
        else:  # crash
            position = stored
            ledger = ProcessedFiles(REF, position)
            read = set(read_and_stored)
    ledger.add(ledger.pending(sorted(folder.values(), key=lambda f: f.path)))
    assert ledger.pending(sorted(folder.values(), key=lambda f: f.path)) == []
    rest = {f for f in folder.values() if f.size} - read
    final = ProcessedFiles(REF, position).pending(sorted(folder.values(), key=lambda f: f.path))
    assert set(final) == rest, f"seed {seed}"
