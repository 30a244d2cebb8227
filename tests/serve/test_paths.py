"""An operator asks which files are on the disk of the server."""

from __future__ import annotations

import json

import pytest

from tests.serve.definitions import write_csv

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def problem(client, path: str) -> str:
    definition = {
        "sources": {"orders": {"type": "file", "format": "csv", "path": path, "primary_key": "id"}},
        "sinks": {"out": {"type": "blackhole", "from": "orders"}},
    }
    (found,) = client.post("/validate", {"definition": json.dumps(definition)}).json["problems"]
    return str(found["message"]).replace(path, "PATH") + found["remedy"]


def test_the_answer_about_a_path_does_not_tell_what_exists(clients, tmp_path):
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "empty.csv").touch()
    (folder / "loop").symlink_to(folder / "loop")
    paths = [
        tmp_path / "missing",
        tmp_path / "missing" / "1.csv",
        tmp_path / "missing" / "*.csv",
        folder,
        folder / "empty.csv",
        folder / "missing.csv",
        folder / "loop",
        folder / "*.csv",
        "/proc/self/environ",
        "/proc/missing",
    ]
    found = {problem(clients["team"], str(path)) for path in paths}
    assert len(found) == 1, found
    assert "there is nothing to read at 'PATH'" in found.pop()
    (folder / "loop").unlink()
    write_csv(folder / "1.csv", range(1))
    definition = f"""
sources:
  orders: {{type: file, format: csv, path: "{folder}", primary_key: id}}
sinks:
  out: {{type: blackhole, from: orders}}
"""
    assert clients["team"].post("/validate", {"definition": definition}).json["is_valid"]
