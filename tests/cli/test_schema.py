"""`schema`: JSON for editors."""

import json


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
