"""`plugins list`: which node types there are and where they come from."""

import json

from tests.cli.test_plan import SECRETIVE


def test_built_ins_are_listed_by_kind_with_what_they_do(project):
    result = project.call("plugins", "list")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["KIND", "ID", "FROM", "WHAT", "IT", "DOES"]
    printing = next(line for line in lines if line.startswith("sink       print"))
    assert printing.endswith("built-in  Rows as JSON lines on standard output.")


def test_a_plugin_file_is_named_as_the_origin(project, monkeypatch):
    path = project.write("vault.py", SECRETIVE)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "vault.py")
    listed = json.loads(project.call("plugins", "list", "--json", "--kind", "sink").out)
    assert {
        "kind": "sink",
        "id": "acme.vault",
        "description": "Keeps rows to itself.",
        "origin": str(path),
        "runs": True,
    } in listed
    assert {entry["kind"] for entry in listed} == {"sink"}


def test_a_plugin_that_cannot_be_loaded_is_a_bad_configuration(project, monkeypatch):
    project.write("vault.py", "import nothing_of_that_name\n")
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "vault.py")
    result = project.call("plugins", "list")
    assert result.code == 78
    assert "nothing_of_that_name" in result.err
    assert "Traceback" not in result.err
