"""Text, colours and tables cut to the width of the output."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from streamling.observe.terminal.printable import printable, printable_json

#: minimum width of a truncated column; narrower ones are unreadable
_LEAST = 10


@dataclass(frozen=True)
class Canvas:
    """A terminal with its width, or a plain file."""

    #: characters per line; None: unlimited
    width: int | None = None
    unicode: bool = False
    colour: bool = False

    def fit(self, text: str, used: int = 0) -> str:
        """Return ``text``, truncated at the end of the line when ``used`` characters precede it."""
        text = printable(text)
        if self.width is None or len(text) <= (room := max(_LEAST, self.width - used)):
            return text
        return text[: room - 1] + ("…" if self.unicode else ">")

    def style(self, text: str, **style: Any) -> str:
        """Return ``text`` in colour or bold, if the output supports it."""
        text = printable(text)
        return click.style(text, **style) if self.colour else text

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Yield the lines of a table with aligned columns; the last column takes the rest of the line."""
        rows = [tuple(map(printable, row)) for row in rows]
        widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
        yield self.style(self._row(headings, widths), bold=True)
        yield from (self._row(row, widths) for row in rows)

    def _row(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        first = "".join(f"{cell:{width}}  " for cell, width in zip(cells[:-1], widths[:-1], strict=True))
        return f"{first}{self.fit(cells[-1], len(first))}".rstrip()


def canvas_of_stdout() -> Canvas:
    """Return colours and drawings for a terminal, plain untruncated lines otherwise."""
    if not sys.stdout.isatty():
        return Canvas()
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Canvas(shutil.get_terminal_size().columns, unicode, "NO_COLOR" not in os.environ)


def echo_json(value: Any) -> None:
    """Print ``value`` as readable JSON."""
    click.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))
