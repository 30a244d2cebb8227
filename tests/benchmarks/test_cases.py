"""The project that `streamling test` is measured with."""

from __future__ import annotations

from benchmarks.cases import write_project

from streamling.dev.pipeline_tests.load import find_files, load_files
from tests.paths import ROOT


def test_the_examples_are_repeated_until_there_are_enough_cases(tmp_path):
    original = {
        (path.relative_to(ROOT / "examples"), name): case
        for path in find_files([ROOT / "examples"])
        for name, case in load_files([path])[0].content.cases.items()
    }
    write_project(tmp_path, 2 * len(original) + 3)
    files = load_files(find_files([tmp_path]))
    assert sum(len(file.content.cases) for file in files) == 2 * len(original) + 3
    for file in files:
        for name, case in file.content.cases.items():
            assert case == original[file.path.relative_to(tmp_path), name.rpartition(",")[0]]
