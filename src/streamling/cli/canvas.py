"""What the output can show, and lines and tables that fit on it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import click

from streamling.output.printable import printable, printable_json

#: least width of a cut column: less than this cannot be read
_LEAST = 10


@dataclass(frozen=True)
class Canvas:
    """A terminal with its width, or a plain file."""

    #: characters per line; None: no limit
    width: int | None = None
    unicode: bool = False
    colour: bool = False

    def fit(self, text: str, used: int = 0) -> str:
        """``text``, cut where the line ends when ``used`` characters stand before it."""
        text = printable(text)
        if self.width is None or len(text) <= (room := max(_LEAST, self.width - used)):
            return text
        return text[: room - 1] + ("…" if self.unicode else ">")

    def style(self, text: str, **style: Any) -> str:
        """``text`` in colour or bold, where that can be seen."""
        text = printable(text)
        return click.style(text, **style) if self.colour else text

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """Aligned columns; the last one takes what is left of the line."""
        rows = [tuple(map(printable, row)) for row in rows]
        widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
        yield self.style(self._row(headings, widths), bold=True)
        yield from (self._row(row, widths) for row in rows)

    def _row(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        first = "".join(f"{cell:{width}}  " for cell, width in zip(cells[:-1], widths[:-1], strict=True))
        return f"{first}{self.fit(cells[-1], len(first))}".rstrip()


def canvas_of_stdout() -> Canvas:
    """Colours and pictures for a terminal, plain full lines for everything else."""
    if not sys.stdout.isatty():
        return Canvas()
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    return Canvas(shutil.get_terminal_size().columns, unicode, "NO_COLOR" not in os.environ)


def echo_json(value: Any) -> None:
    """Print ``value`` as JSON for people and machines."""
    click.echo(printable_json(json.dumps(value, indent=2, ensure_ascii=False)))
