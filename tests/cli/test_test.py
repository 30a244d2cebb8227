"""`test`: the command; `tests/dev/pipeline_tests` tests what cases do."""

from xml.etree import ElementTree as ET

import pytest

CASES = """\
pipeline: pipeline.yaml
cases:
  dear things pass:
    input: {orders: [{id: 1, item: tea, price: 1.5}, {id: 2, item: jam, price: 0.5}]}
    expect: {screen: [{id: 1, item: tea, price: 3}]}
  a wrong price:
    input: {orders: [{id: 1, item: tea, price: 1.5}]}
    expect: {screen: [{id: 1, item: tea, price: 4}]}
"""


@pytest.mark.spark
def test_results_differences_and_junit(project):
    project.write("pipeline.test.yaml", CASES)
    project.write("more/good.test.yaml", CASES.replace("pipeline.yaml", "../pipeline.yaml").split("  a wrong")[0])
    result = project.command("test", "--junit", "results.xml")
    assert result.code == 1, result.err
    lines = [line.partition(" (")[0] for line in result.out.splitlines()]
    assert lines == [
        "passed more/good.test.yaml::dear things pass",
        "passed pipeline.test.yaml::dear things pass",
        "FAILED pipeline.test.yaml::a wrong price",
        "  pipeline.test.yaml:6:3",
        "  print sink 'screen'",
        "    ~ {id: 1, item: tea}",
        "    ~     price: expected 4.0, found 3.0",
        "2 passed, 1 failed",
    ]
    suites = ET.parse(project.folder / "results.xml").getroot()
    assert [(suite.get("name"), suite.get("tests"), suite.get("failures")) for suite in suites] == [
        ("more/good.test.yaml", "1", "0"),
        ("pipeline.test.yaml", "2", "1"),
    ]
    assert "price: expected 4.0, found 3.0" in (suites.find(".//failure").text or "")


@pytest.mark.spark
def test_an_updated_case_passes_and_an_invalid_pipeline_ends_a_fast_run_with_an_exit_code_of_its_own(project):
    wrong = project.write("a.test.yaml", f"pipeline: pipeline.yaml\ncases:\n{CASES[CASES.index('  a wrong') :]}")
    project.write("broken.yaml", (project.folder / "pipeline.yaml").read_text().replace("from: large", "from: lage"))
    project.write("b.test.yaml", "pipeline: broken.yaml\ncases: {one: {}}\n")
    last = project.write("c.test.yaml", CASES)
    result = project.command("test", "--update", "--fail-fast")
    assert result.code == 78
    assert result.out.split(" (")[0] == "updated a.test.yaml::a wrong price"
    assert "{id: 1, item: tea, price: 3.0}" in wrong.read_text()
    assert "broken.yaml:14:31: print sink 'screen' reads from 'lage'" in result.out
    assert "help: did you mean 'large'?" in result.out
    assert result.out.endswith("1 passed, 1 failed, 2 not run\n")
    assert last.read_text() == CASES


def test_cases_are_listed_without_a_jvm(project):
    project.write("pipeline.test.yaml", CASES)
    result = project.call("test", "--list", "-k", "dear or nothing")
    assert (result.code, result.out) == (0, "pipeline.test.yaml::dear things pass\n")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("test", "orders"), 2, "there is no test file in orders"),
        (("test", "-k", "nothing"), 2, "no case matches 'nothing'"),
        (("test", "nowhere"), 2, "'nowhere' does not exist"),
        (("test", "-k", "(a"), 2, "-k is invalid"),
        (("test", "bad"), 78, "bad/x.test.yaml:2:1: the test file: unknown field 'case'"),
    ],
)
def test_wrong_usage_and_wrong_files(project, args, code, message):
    project.write("pipeline.test.yaml", CASES)
    project.write("bad/x.test.yaml", CASES.replace("cases", "case"))
    targets = args if len(args) == 2 else (*args, "pipeline.test.yaml")
    result = project.call(*targets)
    assert result.code == code
    assert message in result.err
