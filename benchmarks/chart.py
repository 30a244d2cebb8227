"""The chart of a page: our cost compared with PySpark's, and the phases of a start. SVG, written without a library."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median

from benchmarks.figures import Figure, Results
from streamling.spark.jvm.timings import TimedPhase

_WIDTH = 1120
#: space for names on the left and for numbers after the longest bar
_LEFT, _RIGHT = 430, 250
_BARS = _WIDTH - _LEFT - _RIGHT
_ROW, _HEAD, _GAP = 26, 66, 30

_INK, _FAINT, _LINE = "#1f2933", "#66727f", "#c9d1d9"
_BETTER, _WORSE, _PHASE = "#2a78b5", "#c8553d", "#7a9cc6"


def chart(results: Results) -> str:
    """Return all panels that have data."""
    compared = [figure for figure in results.figures if figure.cost is not None and "Spark" in figure.compared_with]
    height = _GAP + _panel_height(compared)
    parts = _ratios(compared, _GAP) if compared else []
    for started, phases in results.phases.items():
        parts += _waterfall(started, phases, height)
        height += _panel_height(phases)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
            _bar(0, 0, _WIDTH, height, "white"),
            *parts,
            "</svg>\n",
        ]
    )


def _panel_height(items: Sequence[object]) -> int:
    return _HEAD + _ROW * len(items) + _GAP if items else 0


def _ratios(figures: Sequence[Figure], top: int) -> list[str]:
    """Return a bar per figure: our cost relative to theirs."""
    costs = [figure.cost or 0.0 for figure in figures]
    scale = _BARS / max(1.2, *costs)
    parts = _title(
        top,
        "Cost compared with plain PySpark",
        "time, processor or memory for the same work; PySpark is 1, shorter is better",
    )
    for number, (figure, cost) in enumerate(zip(figures, costs, strict=True)):
        y = top + _HEAD + number * _ROW
        ours, theirs = (figure.unit.digits(median(values)) for values in (figure.ours, figure.other))
        extra = "" if figure.compared_with == "PySpark" else f" ({figure.compared_with})"
        parts += [
            _text(_LEFT - 10, y, f"{figure.scenario}: {figure.name}{extra}", end=True),
            _bar(_LEFT, y, cost * scale, _ROW - 8, _BETTER if cost <= 1 else _WORSE),
            _text(_LEFT + max(cost, 1) * scale + 8, y, f"{cost:.2f}", bold=True),
            _text(_LEFT + max(cost, 1) * scale + 48, y, f"{ours} instead of {theirs} {figure.unit.value}", _FAINT),
        ]
    return [*parts, _mark(_LEFT + scale, top + _HEAD, _ROW * len(figures), "1")]


def _waterfall(started: str, phases: Sequence[TimedPhase], top: int) -> list[str]:
    """Return a bar per phase, from its start to its end."""
    scale = _BARS / max(phase.end for phase in phases)
    parts = _title(top, f"Where the time of {started} goes", "seconds since the process started; phases overlap")
    seconds = range(int(max(phase.end for phase in phases)) + 1)
    parts += [_mark(_LEFT + second * scale, top + _HEAD, _ROW * len(phases), str(second)) for second in seconds]
    for number, phase in enumerate(sorted(phases, key=lambda phase: (phase.start, phase.end))):
        y = top + _HEAD + number * _ROW
        parts += [
            _text(_LEFT - 10, y, phase.name, end=True),
            _bar(_LEFT + phase.start * scale, y, max(2.0, phase.seconds * scale), _ROW - 8, _PHASE),
            _text(_LEFT + phase.end * scale + 8, y, _length(phase), _FAINT),
        ]
    return parts


def _length(phase: TimedPhase) -> str:
    return f"{phase.seconds:.2f} s" if phase.end > phase.start else f"at {phase.end:.2f} s"


def _title(top: int, title: str, explanation: str) -> list[str]:
    return [
        f'<text x="24" y="{top}" font-size="17" font-weight="600" fill="{_INK}">{escape(title)}</text>',
        f'<text x="24" y="{top + 20}" fill="{_FAINT}">{escape(explanation)}</text>',
    ]


def _bar(x: float, y: float, width: float, height: float, fill: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _text(x: float, y: float, text: str, fill: str = _INK, *, end: bool = False, bold: bool = False) -> str:
    """Return a text in the middle of a row that starts at ``y``."""
    style = (' text-anchor="end"' if end else "") + (' font-weight="600"' if bold else "")
    return f'<text x="{x:.1f}" y="{y + 13.5:.1f}" fill="{fill}"{style}>{escape(text)}</text>'


def _mark(x: float, y: float, height: float, label: str) -> str:
    """Return a vertical line with its number above."""
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y - 5:.1f}" y2="{y + height:.1f}" stroke="{_LINE}"/>'
        f'<text x="{x:.1f}" y="{y - 10:.1f}" fill="{_FAINT}" text-anchor="middle">{label}</text>'
    )
