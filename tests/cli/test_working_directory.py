"""An untrusted folder: files beside the pipeline run only if the user asks for it."""

from __future__ import annotations

import pytest

from tests.cli.conftest import PIPELINE, Project, command_line

#: reports that it was imported, wherever that happens
TRAP = (
    "import pathlib\nwith (pathlib.Path(__file__).parent / 'sprung').open('a') as f:\n    f.write(__name__ + '\\n')\n"
)
TRAPPED = ("random", "json", "yaml", "click", "pydantic", "pyarrow", "pyspark", "sqlglot", "decimal", "tests")

SINK = """\
from streamling.plugins import Sink, SinkOptions, plugin

{trap}

@plugin("acme.out")
class Out(Sink[SinkOptions]):
    Options = SinkOptions

    def write(self, batch):
        pass
"""


@pytest.fixture
def folder(project: Project) -> Project:
    for name in TRAPPED:
        project.write(f"{name}.py", TRAP)
    return project


def sprung(project: Project) -> str:
    file = project.folder / "sprung"
    return file.read_text() if file.exists() else ""


def test_modules_in_the_working_directory_are_not_imported(folder: Project) -> None:
    assert "-P" not in command_line(), "as a user starts it"
    assert folder.command("--help").code == 0
    assert folder.command("validate", "pipeline.yaml", "--static").code == 0
    assert sprung(folder) == ""


@pytest.mark.spark
def test_python_workers_of_spark_do_not_import_them_either(folder: Project) -> None:
    # the function runs in Python workers
    folder.write(
        "pipeline.yaml", PIPELINE.replace("SELECT id,", "SELECT id, encode(digest(item, 'blake2b'), 'hex') AS hash,")
    )
    done = folder.command("run", "pipeline.yaml")
    assert done.code == 0, done.err
    assert '"hash":"' in done.out
    assert sprung(folder) == ""


# ── config.yaml in the working directory ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def with_plugins(project: Project) -> Project:
    project.write("config.yaml", "plugin: {path: plugins}\n")
    project.write("plugins/used.py", SINK.format(trap=TRAP))
    project.write("plugins/other.py", SINK.format(trap=TRAP).replace("acme.out", "acme.other"))
    return project


def imported(project: Project) -> list[str]:
    file = project.folder / "plugins" / "sprung"
    names = file.read_text().splitlines() if file.exists() else []
    return sorted({name.removeprefix("streamling_plugin_").rpartition("_")[0] for name in names})


@pytest.mark.parametrize(
    "command",
    [
        ["--help"],
        ["run", "--help"],
        ["completion", "bash"],
        ["schema"],
        ["state", "show"],
        ["state", "show", "pipeline.yaml"],
        ["state", "export"],
        ["state", "reset", "--yes"],
        ["doctor"],
        ["validate", "pipeline.yaml", "--static"],
        ["plan", "pipeline.yaml"],
    ],
    ids=" ".join,
)
def test_plugins_that_the_pipeline_does_not_name_are_not_imported(with_plugins: Project, command: list[str]) -> None:
    with_plugins.call(*command)
    assert imported(with_plugins) == []


def test_a_pipeline_imports_the_plugins_it_names(with_plugins: Project) -> None:
    with_plugins.write("pipeline.yaml", PIPELINE.replace("type: print", "type: acme.out"))
    done = with_plugins.call("validate", "pipeline.yaml", "--static")
    assert done.code == 0, done.err
    assert imported(with_plugins) == ["used"]


def test_the_state_of_a_pipeline_with_plugins_is_shown_without_them(with_plugins: Project) -> None:
    with_plugins.write("pipeline.yaml", PIPELINE.replace("type: print", "type: acme.out"))
    assert with_plugins.call("state", "show", "pipeline.yaml").code == 0
    assert imported(with_plugins) == []


@pytest.mark.parametrize("command", [["plugins", "list"], ["schema", "--plugins"]], ids=" ".join)
def test_commands_about_plugins_import_all(with_plugins: Project, command: list[str]) -> None:
    done = with_plugins.command(*command)
    assert "acme.other" in done.out, done
    assert imported(with_plugins) == ["other", "used"]


def test_a_file_that_computes_its_ids_is_imported_with_every_pipeline(with_plugins: Project) -> None:
    with_plugins.write("plugins/other.py", SINK.format(trap=TRAP).replace('"acme.out"', '"acme" + ".computed"'))
    with_plugins.call("validate", "pipeline.yaml", "--static")
    assert imported(with_plugins) == ["other"]


def test_an_exit_while_a_plugin_is_imported_is_an_error_of_the_plugin(with_plugins: Project) -> None:
    with_plugins.write("plugins/used.py", "import sys\n" + SINK.format(trap="sys.exit(3)"))
    with_plugins.write("pipeline.yaml", PIPELINE.replace("type: print", "type: acme.out"))
    done = with_plugins.call("validate", "pipeline.yaml", "--static")
    assert done.code == 78
    assert "used.py:4:1: the plugin file could not be loaded: it called sys.exit(3)" in done.err
