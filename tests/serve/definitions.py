"""Definitions of small pipelines."""

from __future__ import annotations

from pathlib import Path


def csv_to_print(path: Path, sink: str = "out") -> str:
    """Reads files that may be added later, and prints their rows."""
    return f"""
sources:
  orders: {{type: file, format: csv, path: "{path}", primary_key: id, mode: {{type: continuous, poll_interval: 200ms}}}}
transforms:
  tagged: {{type: sql, primary_key: id, sql: "SELECT id, '{sink}' AS pipeline FROM orders"}}
sinks:
  {sink}: {{type: print, from: tagged}}
"""


def write_csv(path: Path, ids: range) -> None:
    """Appears at once, complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".tmp")
    scratch.write_text("id\n" + "".join(f"{number}\n" for number in ids))
    scratch.rename(path)
