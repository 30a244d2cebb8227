from __future__ import annotations

import json
import os
import subprocess
import sys

from streamling.serve.admin.registry import registered, running_pipelines


def test_a_run_is_found_while_it_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with registered(tmp_path, url="http://127.0.0.1:3000", file="shop.yaml", application_id="shop"):
        (run,) = running_pipelines(tmp_path)
        assert (run.pid, run.url, run.application_id) == (os.getpid(), "http://127.0.0.1:3000", "shop")
        assert run.file == str(tmp_path / "shop.yaml")
    assert running_pipelines(tmp_path) == []


def test_entries_of_processes_that_were_killed_are_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    entry = tmp_path / "runs" / "1.json"
    entry.parent.mkdir()
    entry.write_text(json.dumps({"pid": ended.pid, "url": "http://x", "file": "f", "application_id": "a"}))
    assert running_pipelines(tmp_path) == []
    assert not entry.exists()


def test_files_that_are_not_entries_are_ignored(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "x.json").write_text("{")
    assert running_pipelines(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_not_an_error(tmp_path):
    (tmp_path / "runs").write_text("")
    with registered(tmp_path, url="http://127.0.0.1:3000", file="shop.yaml", application_id="shop"):
        assert running_pipelines(tmp_path) == []
