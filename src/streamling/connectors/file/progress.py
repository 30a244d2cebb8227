"""Tracks which files have been read, as the position that the engine stores.

Bounded: ranges of paths in the sorted listing, as in the Rust implementation. Continuous: a ledger of every file read,
with its size and modification time, so that a file counts as new regardless of its timestamp, and again when it
changes.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from streamling.connectors.file.storage import File
from streamling.plugins.sources import Position

#: files per entry of the ledger: the last entry is rewritten at each checkpoint, full ones never
PAGE_FILES = 500


class Tracker(Protocol):
    """Tracks which files are done."""

    position: Position

    def pending(self, listing: Sequence[File]) -> list[File]:
        """Return the files of a sorted listing that are still to be read, in reading order."""

    def add(self, files: Sequence[File]) -> Position:
        """Mark ``files``, the first of the pending ones, as done; return the position after them."""

    def forget(self, files: Sequence[File]) -> Position:
        """Mark ``files`` as not done; return the position without them."""


class ProcessedRanges:
    """Bounded mode: everything between the first and the last path of a range is done."""

    def __init__(self, ref: str, position: Position) -> None:
        self._key = f"{ref}:bounded_progress"
        stored = (position.get(self._key) or {}).get("completed", [])
        self._ranges = sorted((_plain(entry["first"]), _plain(entry["last"])) for entry in stored)
        self._listing: list[str] = []
        self.position = position

    def pending(self, listing: Sequence[File]) -> list[File]:
        self._listing = [file.key for file in listing]
        return [file for file in listing if not self._covers(file.key)]

    def add(self, files: Sequence[File]) -> Position:
        added = [(file.key, file.key) for file in files]
        self._ranges = _join_ranges(sorted([*self._ranges, *added]), self._listing)
        completed = [{"first": first, "last": last} for first, last in self._ranges]
        self.position = {self._key: {"completed": completed}}
        return self.position

    def forget(self, files: Sequence[File]) -> Position:
        raise AssertionError("a bounded source stops when a file is missing")

    def _covers(self, key: str) -> bool:
        index = bisect_right(self._ranges, key, key=lambda entry: entry[0]) - 1
        return index >= 0 and key <= self._ranges[index][1]


def _join_ranges(ranges: list[tuple[str, str]], listing: list[str]) -> list[tuple[str, str]]:
    """Join ranges with no listed path between them. Ranges of another folder, from before `path` was changed, are not
    joined: there may be unlisted paths between them and ours."""
    folder = _common_folder(listing)
    joined: list[tuple[str, str]] = []
    for first, last in ranges:
        if (
            joined
            and joined[-1][1].startswith(folder)
            and first.startswith(folder)
            and _none_between(joined[-1][1], first, listing)
        ):
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def _common_folder(listing: list[str]) -> str:
    """Return the innermost common folder of a sorted listing, with a trailing slash."""
    # not commonpath, which would change object store keys such as a//b
    common = os.path.commonprefix([listing[0], listing[-1]]) if listing else ""  # noqa: RUF071
    return common[: common.rfind("/") + 1]


def _none_between(last: str, first: str, listing: list[str]) -> bool:
    if first <= last:
        return True
    following = bisect_right(listing, last)
    return following >= len(listing) or listing[following] >= first


class ProcessedFiles:
    """Continuous mode: every file read, by path, with its modification time and size.

    Stored in pages of `PAGE_FILES` under ``{ref}:seen:<n>``; a later page overrides an earlier one. The
    ``{ref}:watermark`` of the Rust implementation is maintained beside it; only `import_watermark` reads it, if there
    is no page.
    """

    def __init__(self, ref: str, position: Position) -> None:
        self._watermark_key = f"{ref}:watermark"
        self._page_prefix = f"{ref}:seen:"
        self.position = position
        self._pages = {
            int(key.removeprefix(self._page_prefix)): dict(value["files"])
            for key, value in position.items()
            if key.startswith(self._page_prefix) and value is not None
        }
        self._dropped = [key for key in position if key.startswith(self._page_prefix) and position[key] is None]
        self._last_page = max(self._pages, default=-1)
        self._versions: dict[str, list[int]] = {}
        for number in sorted(self._pages):
            self._versions |= self._pages[number]
        self._watermark: Mapping[str, Any] | None = position.get(self._watermark_key)
        self._listed: set[str] = set()

    def pending(self, listing: Sequence[File]) -> list[File]:
        self._listed = {file.key for file in listing}
        # A file of size 0 is about to be written: it counts once it has content.
        new = [file for file in listing if file.size and self._versions.get(file.key) != _version_of(file)]
        new.sort(key=lambda file: (file.mtime_ms, file.path))
        return new

    def add(self, files: Sequence[File]) -> Position:
        for start in range(0, len(files), PAGE_FILES):
            self._append(files[start : start + PAGE_FILES])
        self._raise_watermark(files)
        return self._update_position()

    def forget(self, files: Sequence[File]) -> Position:
        keys = {file.key for file in files}
        for number, page in self._pages.items():
            if not keys.isdisjoint(page):
                self._pages[number] = {key: version for key, version in page.items() if key not in keys}
        for key in keys:
            self._versions.pop(key, None)
        return self._update_position()

    def _update_position(self) -> Position:
        self.position = {
            **dict.fromkeys(self._dropped),
            **{f"{self._page_prefix}{number}": {"files": page} for number, page in self._pages.items()},
            self._watermark_key: self._watermark,
        }
        return self.position

    def import_watermark(self, listing: Sequence[File]) -> Position:
        """Mark as done what the Rust implementation had read, which stored a time instead of files; return the
        position."""
        if self._pages or self._watermark is None:
            return self.position
        instant = self._watermark.get("last_modified_ms", -1)
        named = {
            _plain(path) for name in ("boundary_paths", "committed_ahead") for path in self._watermark.get(name, [])
        }
        self._listed = {file.key for file in listing}
        # Even an empty page records that the watermark has been imported.
        self._pages[0], self._last_page = {}, 0
        return self.add([file for file in listing if file.mtime_ms < instant or file.key in named])

    def _append(self, files: Sequence[File]) -> None:
        versions = {file.key: _version_of(file) for file in files}
        # Pages are part of positions already handed out: they are replaced, never changed.
        page = self._pages.get(self._last_page, {}) | versions
        if self._last_page < 0 or len(page) > PAGE_FILES:
            self._compact_if_worth_it()
            self._last_page += 1
            page = self._pages.get(self._last_page, {}) | versions
        self._pages[self._last_page] = page
        self._versions |= versions

    def _compact_if_worth_it(self) -> None:
        # Checking every entry for every page would take minutes for 100 000 files.
        if sum(map(len, self._pages.values())) > 2 * len(self._listed) + PAGE_FILES:
            self._compact()

    def _compact(self) -> None:
        """Drop pages that mostly list files which were deleted or read again, so that the ledger grows with the folder
        and not with its history."""
        for number in sorted(self._pages):
            page = self._pages[number]
            live = {
                key: version
                for key, version in page.items()
                if key in self._listed and self._versions.get(key) == version
            }
            if len(live) > len(page) // 2:
                continue
            del self._pages[number]
            self._dropped.append(f"{self._page_prefix}{number}")
            for key in page.keys() - live.keys() - self._listed:
                self._versions.pop(key, None)
            if live:
                self._pages[self._last_page + 1] = self._pages.get(self._last_page + 1, {}) | live

    def _raise_watermark(self, files: Iterable[File]) -> None:
        newest = max((file.mtime_ms for file in files), default=0)
        current = self._watermark or {"last_modified_ms": -1, "boundary_paths": []}
        if newest < current["last_modified_ms"]:
            return
        boundary = current["boundary_paths"] if newest == current["last_modified_ms"] else []
        paths = {*boundary, *(file.key for file in files if file.mtime_ms == newest)}
        # Unpacked archives give thousands of files the same timestamp; the Rust implementation would read those beyond
        # the limit again.
        kept = sorted(paths)[:PAGE_FILES]
        self._watermark = {"last_modified_ms": newest, "boundary_paths": kept, "committed_ahead": []}


def _version_of(file: File) -> list[int]:
    return [file.mtime_ns, file.size]


def _plain(path: str) -> str:
    return path.lstrip("/")
