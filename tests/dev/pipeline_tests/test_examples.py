"""The test files of the examples and of `streamling new`."""

from __future__ import annotations

import pytest
from tests.dev.pipeline_tests.driver import problems
from tests.paths import ROOT

from streamling.dev.pipeline_tests.load import find_files, load_files
from streamling.dev.pipeline_tests.run_case import run_cases

FOLDERS = [ROOT / "examples", ROOT / "src" / "streamling" / "cli" / "templates"]
#: the example is about metrics and has no pipeline of its own
_WITHOUT_TESTS = {"metrics"}


def test_every_example_has_tests():
    tested = {path.parent.name for path in find_files([ROOT / "examples"])}
    examples = {path.name for path in (ROOT / "examples").iterdir() if path.is_dir()}
    assert tested == examples - _WITHOUT_TESTS


@pytest.mark.spark
def test_all_cases_pass_from_any_folder(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = load_files(find_files(FOLDERS))
    cases = [case for file in files for case in file.cases()]
    assert len(cases) > 20
    failures = {result.case.id: problems(result) for result in run_cases(cases, lambda: spark) if not result.passed}
    assert failures == {}
