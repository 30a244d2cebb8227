"""Files that arrive while a real pipeline runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import command_environment, command_line

pytestmark = pytest.mark.spark

PIPELINE = """\
sources:
  s: {type: file, path: in, format: json, mode: {type: continuous, poll_interval: 100ms}, primary_key: id}
transforms:
  t: {type: sql, sql: "SELECT *, id + 1 AS next FROM s", primary_key: id}
sinks:
  direct: {type: print, from: s}
  through: {type: print, from: t}
"""


def arrive(folder: Path, name: str, row: dict[str, Any]) -> None:
    """Write under another name first, as writers should."""
    hidden = folder / f".{name}"
    hidden.write_text(json.dumps(row))
    hidden.rename(folder / name)


def test_a_new_column_reaches_the_sinks_and_a_bad_file_fails_the_run_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "pipeline.yaml").write_text(PIPELINE)
    arrive(folder, "a.json", {"id": 1})
    with subprocess.Popen(
        command_line("run", "pipeline.yaml"), cwd=tmp_path, env=command_environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout is not None
            assert process.stderr is not None

            def two_rows() -> list[dict[str, Any]]:
                lines = [process.stdout.readline() for _ in range(2)]  # type: ignore[union-attr]
                return sorted((json.loads(line) for line in lines), key=len)

            assert two_rows() == [{"id": 1, "_gs_op": "i"}, {"id": 1, "_gs_op": "i", "next": 2}]
            arrive(folder, "b.json", {"id": 2, "new": {"k": "x"}})
            row = {"id": 2, "new": {"k": "x"}, "_gs_op": "i"}
            assert two_rows() == [row, {**row, "next": 3}]
            arrive(folder, "c.json", {"id": "x"})
            out, err = process.stdout.read(), process.stderr.read()
        finally:
            process.kill()
    assert (process.returncode, out) == (1, "")
    assert "b.json': 'new'; rows have them from now on" in err
    assert "file source 's': " in err
    assert "c.json': line 1, column 'id': \"x\" is not a whole number" in err
