"""Plugins from packages and files: found, registered, or refused with what is wrong and where."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from streamling.errors import InvalidPipeline, Problem
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.loader import GROUP
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from tests.harness.plugins import load_plugins

SINK = """\
from streamling.plugins import Sink, SinkOptions, plugin


@plugin("{id}")
class MySink(Sink[SinkOptions]):
    Options = SinkOptions

    def write(self, batch):
        pass
"""


def load(path: Path | str | None) -> Registry:
    return load_plugins(Registry.builtin(), path)


def problems(path: Path | str | None) -> list[Problem]:
    with pytest.raises(InvalidPipeline) as caught:
        load(path)
    return caught.value.problems


def write(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


# ── files ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_registers_its_marked_classes_under_their_ids(tmp_path):
    file = write(tmp_path, "mine.py", SINK.format(id="acme.out"))
    found = load(file).get(NodeKind.SINK, "acme.out")
    assert found is not None
    assert found.plugin
    assert issubclass(found.operator, Sink)


def test_every_plugin_has_the_fields_of_its_kind(tmp_path):
    file = write(tmp_path, "mine.py", SINK.format(id="acme.out"))
    fields = load(file).get(NodeKind.SINK, "acme.out").options.model_fields
    assert {"from_", "primary_key", "telemetry", "parallelism", "batch_size", "batch_flush_interval"} <= set(fields)


def test_a_folder_registers_all_its_files_but_not_private_ones(tmp_path):
    write(tmp_path, "one.py", SINK.format(id="acme.one"))
    write(tmp_path, "two.py", SINK.format(id="acme.two"))
    write(tmp_path, "_draft.py", "raise RuntimeError")
    write(tmp_path, ".hidden.py", "raise RuntimeError")
    write(tmp_path, "notes.txt", "no Python")
    assert {"acme.one", "acme.two"} <= set(load(tmp_path).ids(NodeKind.SINK))


def test_classes_that_are_only_imported_or_not_marked_are_not_registered(tmp_path):
    text = SINK.format(id="acme.out") + "\n\nclass Base(Sink[SinkOptions]):\n    pass\n"
    before = set(Registry.builtin().ids(NodeKind.SINK))
    assert set(load(write(tmp_path, "mine.py", text)).ids(NodeKind.SINK)) - before == {"acme.out"}


def test_two_files_of_one_name_do_not_get_into_each_others_way(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = load(write(tmp_path / "a", "mine.py", SINK.format(id="acme.out"))).get(NodeKind.SINK, "acme.out")
    second = load(write(tmp_path / "b", "mine.py", SINK.format(id="acme.out"))).get(NodeKind.SINK, "acme.out")
    assert first.operator is not second.operator
    assert sys.modules[first.operator.__module__].MySink is first.operator


def test_without_a_path_there_are_only_the_built_ins():
    assert load(None).ids(NodeKind.SOURCE) == Registry.builtin().ids(NodeKind.SOURCE)


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_path_that_does_not_exist_is_named(tmp_path):
    (problem,) = problems(tmp_path / "nowhere.py")
    assert problem.message == f"plugin.path: '{tmp_path / 'nowhere.py'}' does not exist"
    assert problem.remedy is not None


@pytest.mark.parametrize("name", ["libacme.so", "libacme.dylib"])
def test_a_native_library_is_refused(tmp_path, name):
    library = tmp_path / name
    library.write_bytes(b"\x7fELF")
    (problem,) = problems(library)
    assert problem.message.endswith(f"{name}' is a native library, which only the Rust implementation can load")
    assert "streamling plugins new" in (problem.remedy or "")


def test_a_type_of_a_native_library_in_the_folder_is_refused_when_it_is_used(tmp_path):
    (tmp_path / "libacme.so").write_bytes(b"\x7fELF")
    registry = load(tmp_path)
    text = "sources: {a: {type: acme.numbers}}\nsinks: {b: {type: blackhole, from: a}}"
    with pytest.raises(InvalidPipeline) as caught:
        parse_pipeline(text, registry=registry)
    (problem,) = caught.value.problems
    assert "native libraries such as libacme.so run in the Rust implementation only" in (problem.remedy or "")


def test_an_import_error_names_the_file_the_line_and_the_cause(tmp_path):
    file = write(tmp_path, "mine.py", "import os\n\nimport a_driver_nobody_has\n")
    (problem,) = problems(file)
    assert problem.location == f"{file}:3:1"
    assert problem.message.endswith("ModuleNotFoundError: No module named 'a_driver_nobody_has'")
    assert "Traceback" not in str(problem)


def test_an_error_inside_a_call_has_its_place_in_the_plugin_file(tmp_path):
    file = write(tmp_path, "mine.py", "import json\n\nSETTINGS = json.loads('{')\n")
    (problem,) = problems(file)
    assert (problem.file, problem.line) == (str(file), 3)


def test_a_syntax_error_names_the_place(tmp_path):
    file = write(tmp_path, "mine.py", "x = 1\nclass :\n")
    (problem,) = problems(file)
    assert problem.location == f"{file}:2:7"
    assert "SyntaxError: invalid syntax" in problem.message


def test_a_failed_file_leaves_no_module_behind(tmp_path):
    before = set(sys.modules)
    problems(write(tmp_path, "mine.py", "raise RuntimeError('no')"))
    assert not [name for name in set(sys.modules) - before if "mine" in name]


def test_the_id_of_a_built_in_is_taken(tmp_path):
    file = write(tmp_path, "mine.py", SINK.format(id="print"))
    (problem,) = problems(file)
    assert problem.message == "plugin 'print': there is already a sink 'print'"
    assert (problem.file, problem.line) == (str(file), 4)
    assert problem.remedy == "give the plugin another id"


def test_the_id_of_a_built_in_of_another_kind_is_free(tmp_path):
    assert load(write(tmp_path, "mine.py", SINK.format(id="sql"))).get(NodeKind.SINK, "sql") is not None


def test_a_duplicate_id_is_reported_at_the_second_place(tmp_path):
    write(tmp_path, "one.py", SINK.format(id="acme.out"))
    second = write(tmp_path, "two.py", SINK.format(id="acme.out"))
    (problem,) = problems(tmp_path)
    assert problem.message == "plugin 'acme.out': there is already a sink 'acme.out'"
    assert problem.file == str(second)


def test_a_class_of_no_kind_is_refused_with_the_choice(tmp_path):
    text = "from streamling.plugins import plugin\n\n\n@plugin('acme.thing')\nclass Thing:\n    pass\n"
    (problem,) = problems(write(tmp_path, "mine.py", text))
    assert problem.message.startswith("plugin 'acme.thing': <class ")
    assert problem.message.endswith("is not a source, transform or sink")
    assert problem.remedy == "derive it from Source, Transform or Sink of streamling.plugins"


def test_methods_that_are_missing_are_listed(tmp_path):
    text = (
        "from streamling.plugins import Source, SourceOptions, plugin\n\n\n"
        "@plugin('acme.half')\nclass Half(Source[SourceOptions]):\n    Options = SourceOptions\n"
    )
    (problem,) = problems(write(tmp_path, "mine.py", text))
    assert problem.message == "plugin 'acme.half': Half does not implement read, schema"


def test_all_problems_are_reported_together(tmp_path):
    write(tmp_path, "one.py", "import a_driver_nobody_has")
    write(tmp_path, "two.py", SINK.format(id="print"))
    assert [Path(problem.file).name for problem in problems(tmp_path)] == ["one.py", "two.py"]


def test_the_command_reports_a_broken_plugin_in_one_line_and_exits_78(tmp_path):
    file = write(tmp_path, "mine.py", "import a_driver_nobody_has\n" + SINK.format(id="acme.out"))
    write(tmp_path, "pipeline.yaml", "sources: {}\nsinks: {out: {type: acme.out}}\n")
    done = subprocess.run(
        [sys.executable, "-m", "streamling", "validate", "--static", "pipeline.yaml"],
        cwd=tmp_path,
        env={"STREAMLING__PLUGIN__PATH": str(file), "PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 78, done.stderr
    assert done.stderr.splitlines() == [
        f"error: {file}:1:1: the plugin file could not be loaded: "
        "ModuleNotFoundError: No module named 'a_driver_nobody_has'"
    ]


# ── packages ─────────────────────────────────────────────────────────────────────────────────────────────────


def install(target: Path, monkeypatch: pytest.MonkeyPatch, entries: dict[str, str]) -> None:
    """What an installer writes: the package's metadata with its entry points, on the path of Python."""
    info = target / "acme-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    lines = [f"[{GROUP}]", *(f"{id} = {location}" for id, location in entries.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(target)


@pytest.fixture
def forgotten(monkeypatch):
    """Modules that a test installs are unknown again afterwards."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("acme", "basic_plugin")):
            del sys.modules[name]


def test_the_entry_points_of_an_installed_package_are_registered(tmp_path, monkeypatch, forgotten):
    (tmp_path / "acme_streams.py").write_text(SINK.format(id="ignored"))
    install(tmp_path, monkeypatch, {"acme.out": "acme_streams:MySink"})
    registry = load(None)
    assert registry.get(NodeKind.SINK, "acme.out").operator.__module__ == "acme_streams"
    assert registry.get(NodeKind.SINK, "ignored") is None


def test_the_example_package_declares_what_the_example_file_holds(tmp_path, monkeypatch, examples, forgotten):
    project = tomllib.loads((examples / "package" / "pyproject.toml").read_text())
    ((source, name),) = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"].items()
    (tmp_path / name).write_bytes((examples / "package" / source).read_bytes())
    entries = project["project"]["entry-points"][GROUP]
    install(tmp_path, monkeypatch, entries)
    installed = load(None)
    found = {kind: set(installed.ids(kind)) - set(Registry.builtin().ids(kind)) for kind in NodeKind}
    assert found == {
        NodeKind.SOURCE: {"basic_plugin.random_source"},
        NodeKind.TRANSFORM: {"basic_plugin.filter_transform"},
        NodeKind.SINK: {"print_sink"},
    }


def test_a_package_that_cannot_be_imported_is_named_with_its_plugin(tmp_path, monkeypatch, forgotten):
    (tmp_path / "acme_streams.py").write_text("import a_driver_nobody_has")
    install(tmp_path, monkeypatch, {"acme.out": "acme_streams:MySink"})
    (problem,) = problems(None)
    assert problem.message == (
        "plugin 'acme.out' of package acme could not be loaded: "
        "ModuleNotFoundError: No module named 'a_driver_nobody_has'"
    )
    assert problem.remedy == "update or uninstall the package"


def test_an_entry_point_that_is_not_an_operator_is_rejected(tmp_path, monkeypatch, forgotten):
    (tmp_path / "acme_streams.py").write_text("def out(): ...")
    install(tmp_path, monkeypatch, {"acme.out": "acme_streams:out"})
    (problem,) = problems(None)
    assert problem.message.startswith("plugin 'acme.out' of package acme: <function out")


def test_a_package_and_a_file_with_the_same_plugin_are_distinguished(tmp_path, monkeypatch, forgotten):
    (tmp_path / "acme_streams.py").write_text(SINK.format(id="ignored"))
    install(tmp_path, monkeypatch, {"acme.out": "acme_streams:MySink"})
    file = write(tmp_path, "mine.py", SINK.format(id="acme.out"))
    (problem,) = problems(file)
    assert problem.file == str(file)
    assert "plugin 'acme.out': package acme has it, too" in problem.message
