"""The pages on plugins and sinks say what is so: their code is run, their tables are made from the models."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from streamling.dev.reference.nodes import with_field_tables
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.parse import load_pipeline
from streamling.plugins.registry import Registry
from tests.harness.pipelines import finish, start_run
from tests.harness.plugins import load_plugins

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "plugins.md"

_BLOCK = re.compile(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", re.DOTALL)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """The files of the walk-through; several blocks of one file follow each other."""
    texts: dict[str, list[str]] = {}
    for name, text in _BLOCK.findall(PAGE.read_text()):
        texts.setdefault(name, []).append(text)
    for name, parts in texts.items():
        (tmp_path / name).write_text("\n\n".join(parts))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(state: MemoryState) -> None:
    registry = load_plugins(Registry.builtin(), "dice.py")
    finish(start_run(load_pipeline("pipeline.yaml", registry=registry), registry, state=state))


def test_the_pipeline_of_the_walk_through_gives_the_rows_it_shows(folder):
    run(MemoryState())
    lines = (folder / "results.jsonl").read_text().splitlines()
    assert len(lines) == 12
    assert lines[0] in PAGE.read_text()
    assert all(row["total"] == row["red"] + row["blue"] for row in map(json.loads, lines))


def test_a_second_run_adds_nothing(folder):
    state = MemoryState()
    run(state)
    run(state)
    assert len((folder / "results.jsonl").read_text().splitlines()) == 12


@pytest.mark.slow
def test_the_plugins_of_the_walk_through_pass_their_contract_tests(folder):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_dice.py"],
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"^\d{2} passed", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_the_errors_that_the_walk_through_proposes_are_found(folder):
    file = folder / "dice.py"
    right = file.read_text()
    wrong = {
        "flush": right.replace("        self._file.flush()\n        os.fsync(self._file.fileno())\n", "        pass\n"),
        "read": right.replace("position.get(self.context.name, 0)", "self.__dict__.get('done', 0)").replace(
            "return SourceBatch(rows,", "self.done = rolls.stop\n        return SourceBatch(rows,"
        ),
        "constructor": right.replace(
            "    def open(self):\n        self._file",
            "    def __init__(self, context):\n"
            "        super().__init__(context)\n        open(self.options.path, 'a').close()\n\n"
            "    def open(self):\n        self._file",
        ),
    }
    tests = {"flush": "TestLines", "read": "TestRolls", "constructor": "TestLines"}
    for name, text in wrong.items():
        assert text != right, name
        file.write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_dice.py", "-k", tests[name]],
            cwd=folder,
            capture_output=True,
            text=True,
        )
        assert "failed" in done.stdout, f"{name}: {done.stdout}"


@pytest.mark.parametrize("page", sorted((DOCS / "sinks").glob("*.md")), ids=lambda page: page.stem)
def test_field_tables_are_those_of_the_models(page):
    text = page.read_text()
    assert "<!-- fields:" in text
    assert with_field_tables(text, Registry.builtin()) == text


def test_links_of_the_page_lead_somewhere():
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", PAGE.read_text()):
        assert (PAGE.parent / target).exists(), target
