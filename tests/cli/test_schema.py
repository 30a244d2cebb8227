"""`schema`: JSON for editors."""

import json

import pytest

from tests.paths import ROOT


def test_the_schema_goes_to_stdout_as_json(project):
    schema = json.loads(project.call("schema").out)
    assert schema["required"] == ["sources", "sinks"]


def test_the_schema_is_written_to_a_file_with_instructions(project):
    result = project.call("schema", "-o", "p.schema.json")
    assert (result.code, result.out) == (0, "")
    assert "# yaml-language-server: $schema=p.schema.json" in result.err
    assert json.loads((project.folder / "p.schema.json").read_text())["title"] == "Streamling pipeline"


def test_a_file_that_cannot_be_written_is_an_error(project):
    result = project.call("schema", "-o", "no/such/folder.json")
    assert result.code == 1
    assert result.err == "error: no/such/folder.json cannot be written: No such file or directory\n"


def test_plugins_are_part_of_it_on_request(project, monkeypatch):
    from tests.cli.test_plan import SECRETIVE

    project.write("vault.py", SECRETIVE)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "vault.py")
    assert "acme.vault" in project.call("schema", "--plugins").out


def test_test_files_have_a_schema_of_their_own(project):
    schema = json.loads(project.call("schema", "--test").out)
    assert schema["required"] == ["pipeline", "cases"]
    assert project.call("schema", "--test", "--plugins").code == 2


@pytest.mark.parametrize(("name", "options"), [("pipeline", ()), ("test", ("--test",))])
def test_the_schemas_of_the_repository_are_up_to_date(project, name, options):
    """If this fails: make generate"""
    assert project.call("schema", *options).out == (ROOT / "schemas" / f"{name}.schema.json").read_text()


@pytest.mark.parametrize("folder", ["examples", "src/streamling/cli/templates"])
def test_editors_find_the_schema_of_every_example_and_template(project, folder):
    project.call("new", "first")
    files = [file for file in (ROOT / folder).rglob("*.yaml") if file.name != "config.yaml"]
    assert files
    for file in files:
        kind = "test" if file.name.endswith(".test.yaml") else "pipeline"
        schema = file.read_text().splitlines()[0].partition("# yaml-language-server: $schema=")[2]
        beside = file.parent if folder == "examples" else project.folder / "first"
        assert json.loads((beside / schema).read_text())["title"] == f"Streamling {kind}", file
