"""The fenced blocks of the pages in docs/, of the examples and of the guides, and what comments before them say.

A block is checked by its language. HTML comments directly before it say more:

- ``<!-- file: NAME -->``: the contents of a file; further blocks of the section use it
- ``<!-- data: NAME`` with lines of text ``-->``: the same, but not shown; text after ``query.sql`` is its error
- ``<!-- run in: FOLDER -->``: a pipeline that runs in a folder of the repository
- ``<!-- same as: FILE -->``: equal to a file of the repository; a pipeline runs in its folder
- ``<!-- rows: SINK -->``: the rows that the pipeline before it writes to a sink
- ``<!-- postgres -->``: SQL for Postgres, not for a pipeline
- ``<!-- not checked: REASON -->``: nothing can be checked
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.paths import ROOT

PAGES = [
    *(ROOT / name for name in ("README.md", "AGENTS.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("README.md")),
]

_COMMENT = re.compile(r"<!-- ([a-z ]+?)(?:: (.*?))? -->|<!-- (data): (\S+)\n(.*?)^-->", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: str
    line: int
    section: str
    language: str
    text: str
    #: what the comments before it say, by their first word
    comments: dict[str, str] = field(default_factory=dict)
    #: contents of files that are not shown, by name
    data: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """The blocks of one page, in order."""
    name, lines = page.relative_to(ROOT).as_posix(), page.read_text(encoding="utf-8").splitlines()
    found, section, before, at = [], "", 0, 0
    while at < len(lines):
        if lines[at].startswith("#"):
            section = lines[at].lstrip("# ")
        if not (fence := re.match(r" *(```+)(\w*)", lines[at])):
            at += 1
            continue
        end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == fence[1])
        comments, data = _comments_before(lines[before:at])
        text = "\n".join(lines[at + 1 : end]) + "\n"
        found.append(Block(name, at + 1, section, fence[2], text, comments, data))
        before = at = end + 1
    return found


def all_blocks() -> list[Block]:
    """The blocks of every page."""
    return [block for page in PAGES for block in blocks_of(page)]


def _comments_before(lines: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """The comments at the end of ``lines``, with nothing after them."""
    text, comments, data = "\n".join(lines).rstrip(), {}, {}
    while text.endswith("-->"):
        start = text.rindex("<!--")
        if not (comment := _COMMENT.fullmatch(text, start)):
            break
        if comment[3]:
            data[comment[4]] = comment[5]
        else:
            comments[comment[1]] = comment[2] or ""
        text = text[:start].rstrip()
    return comments, data
