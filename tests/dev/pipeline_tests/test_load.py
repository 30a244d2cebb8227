"""Test files: finding them, and their errors."""

import pytest

from streamling.dev.pipeline_tests.load import find_files, load_file
from streamling.errors import InvalidPipeline

VALID = "pipeline: p.yaml\ncases:\n  one:\n    input: {s: [{id: 1}]}\n    expect: {out: []}\n"


@pytest.fixture
def write(tmp_path):
    (tmp_path / "p.yaml").write_text("")

    def write(text, name="p.test.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return write


def test_files_are_found_in_folders_below_each_once(write, tmp_path):
    names = ["a.test.yaml", "b/c.test.yml", "b/pipeline.yaml", ".hidden/x.test.yaml", "test.yaml"]
    for name in names:
        write(VALID, name)
    found = find_files([tmp_path, tmp_path / "a.test.yaml"])
    assert [str(path.relative_to(tmp_path)) for path in found] == names[:2]


def test_rows_may_be_written_without_a_mapping(write):
    case = next(load_file(write(VALID)).cases()).case
    assert case.input["s"].all_batches == [[{"id": 1}]]
    assert case.expect["out"].rows == []


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        (VALID.replace("expect", "expects"), ":5:5: the test file: unknown field 'cases.one.expects'", "'expect'"),
        (VALID.replace("cases", "case"), "unknown field 'case'", "did you mean 'cases'?"),
        (VALID.replace("[{id: 1}]", "[1]"), "'cases.one.input.s[0]' is a number where a mapping", ""),
        (VALID.replace("p.yaml", "q.yaml"), ":1:11: the pipeline file 'q.yaml' does not exist", "relative to the test"),
        (VALID + "    now: noon\n", "'cases.one.now' is 'noon', which is not a time", "2024-07-01T12:00:00Z"),
        (VALID + "    timeout: 5\n", "'cases.one.timeout' is 5, which has no unit", "such as 500ms"),
        ("- 1\n", "the test file is not a mapping", "'pipeline' and 'cases'"),
        (VALID + "  one: {}\n", "the key 'one' is also in line 3", "remove one"),
    ],
)
def test_errors_name_the_place_and_the_remedy(write, text, message, remedy):
    with pytest.raises(InvalidPipeline) as error:
        load_file(write(text))
    assert message in str(error.value)
    assert remedy in str(error.value)
