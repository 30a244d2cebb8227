"""`new`: the first project of a user."""

import pytest


def test_new_writes_a_project_whose_pipeline_is_valid(project, monkeypatch):
    result = project.call("new", "weather")
    assert result.code == 0
    steps = ["cd weather", "streamling run pipeline.yaml", "streamling test", "streamling plan pipeline.yaml"]
    assert result.out.endswith("Next:\n" + "".join(f"  {step}\n" for step in steps))
    folder = project.folder / "weather"
    written = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    schemas = {"pipeline.schema.json", "test.schema.json"}
    assert written == {".gitignore", "README.md", "pipeline.yaml", "pipeline.test.yaml"} | schemas
    monkeypatch.chdir(folder)
    assert project.call("validate", "--static").out == f"{folder}/pipeline.yaml is valid\n"


def test_new_fills_an_empty_folder_that_is_the_working_directory(project, monkeypatch):
    (project.folder / "empty").mkdir()
    monkeypatch.chdir(project.folder / "empty")
    result = project.call("new", ".")
    assert result.code == 0
    assert "cd " not in result.out.split("Next:")[1]


@pytest.mark.parametrize("target", [".", "orders"])
def test_a_folder_with_something_in_it_is_left_alone(project, target):
    before = sorted(project.folder.rglob("*"))
    result = project.call("new", target)
    assert result.code == 2
    assert f"{target} is not empty" in result.err
    assert sorted(project.folder.rglob("*")) == before


def test_an_existing_file_is_wrong_usage(project):
    assert project.call("new", "pipeline.yaml").code == 2


_UNWRITABLE = "/sys/streamling"  # not even root can create folders there


@pytest.mark.parametrize(
    ("target", "reasons"),
    [
        ("pipeline.yaml/x", {"part of the path is a file"}),
        ("x" * 300, {"the name is too long"}),
        (_UNWRITABLE, {"no permission", "the file system is read-only"}),
    ],
)
@pytest.mark.parametrize(
    "command", [("new", "{}"), ("plugins", "new", "acme", "--dir", "{}"), ("dev", "up", "--folder", "{}")]
)
def test_a_folder_that_cannot_be_written_is_an_ordinary_error(project, command, target, reasons):
    result = project.call(*(part.format(target) for part in command))
    assert result.code == 1
    assert any(f"cannot be used: {reason}" in result.err for reason in reasons), result.err
    assert target in result.err
    assert "help: choose a writable folder" in result.err
    assert "internal" not in result.err
