"""`plugins list`: the node types and their origin."""

import json
import re
import subprocess
import sys
import venv

import pytest

from tests.cli.test_plan import SECRETIVE


def test_built_ins_are_listed_by_kind_with_what_they_do(project):
    result = project.call("plugins", "list")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0].split() == ["KIND", "ID", "FROM", "DESCRIPTION"]
    printing = next(line for line in lines if line.startswith("sink       print"))
    assert printing.endswith("built-in  Prints rows as JSON lines to standard output.")


def test_a_plugin_file_is_shown_as_the_origin(project, monkeypatch):
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


@pytest.mark.slow
def test_a_new_plugin_runs_passes_its_tests_and_is_listed(project, tmp_path, monkeypatch):
    result = project.call("plugins", "new", "acme-orders", "--dir", str(tmp_path / "made"))
    assert result.code == 0
    folder = tmp_path / "made"
    assert sorted(path.name for path in folder.iterdir()) == [
        ".gitignore",
        "README.md",
        "acme_orders.py",
        "config.yaml",
        "pipeline.schema.json",
        "pipeline.yaml",
        "pyproject.toml",
        "test_acme_orders.py",
    ]
    assert not [path for path in folder.iterdir() if "NAME" in path.read_text() or "DIST" in path.read_text()]
    monkeypatch.chdir(folder)
    listed = json.loads(project.call("plugins", "list", "--json").out)
    assert {"acme_orders.numbers", "acme_orders.times", "acme_orders.lines"} <= {entry["id"] for entry in listed}
    assert project.call("validate", "pipeline.yaml", "--static").code == 0
    python = environment(tmp_path / "venv")

    def call(*command: str) -> str:
        done = subprocess.run([python, "-m", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # no network: everything it needs is installed
    call("pip", "install", "-e", ".[test]", "--no-index", "--no-deps", "--no-build-isolation", "--quiet")
    assert re.search(r"^\d{2} passed", out := call("pytest", "-q", "-p", "no:cacheprovider"), re.MULTILINE), out
    listed = json.loads(call("streamling", "plugins", "list", "--json"))
    assert [entry["origin"] for entry in listed if entry["id"] == "acme_orders.lines"] == ["acme-orders 0.1.0"]
    assert "is valid" in call("streamling", "validate", "pipeline.yaml", "--static")


def environment(folder):
    """An empty environment with access to the packages of this one."""
    venv.create(folder, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "these.pth").write_text("\n".join(path for path in sys.path if path))
    return folder / "bin" / "python"


def test_a_plugin_that_is_also_installed_is_shown_with_its_package(project, tmp_path, monkeypatch):
    project.write("lib/dice.py", SECRETIVE)
    info = tmp_path / "lib" / "dice-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dice\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[streamling.plugins]\nacme.vault = dice:Vault\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    project.write("vault.py", SECRETIVE)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "lib/dice.py")
    assert project.call("plugins", "list").code == 0
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "vault.py")
    result = project.call("plugins", "list")
    assert result.code == 78
    assert "plugin 'acme.vault': package dice has it, too" in result.err
    assert "remove plugin.path, or uninstall the package" in result.err


@pytest.mark.parametrize("name", ["Acme", "1st", "a b", "json", "streamling", "../x"])
def test_an_invalid_module_name_is_rejected(project, name):
    result = project.call("plugins", "new", name)
    assert result.code == 2
    assert f"'{name}' is not a valid module name" in result.err.replace("\n", " ")


def test_functions_and_preprocessors_of_plugins_are_listed(project, monkeypatch):
    text = """
import pyarrow as pa
from streamling.plugins import Preprocessor, SqlFunction, plugin

@plugin("shout")
class Shout(SqlFunction):
    'Louder.'
    argument_types, return_type = (pa.string(),), pa.string()
    def call(self, text): return text

@plugin("acme.paths")
class Paths(Preprocessor):
    def rewrite(self, text): return text
"""
    path = project.write("more.py", text)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "more.py")
    listed = json.loads(project.call("plugins", "list", "--json", "--kind", "function").out)
    assert listed == [{"kind": "function", "id": "shout", "description": "Louder.", "origin": str(path), "runs": True}]
    lines = project.call("plugins", "list", "--kind", "preprocessor").out.splitlines()
    assert lines[1].split()[:2] == ["preprocessor", "acme.paths"]
