"""Every block of code in the documentation is valid, and what can run here runs and gives the rows that are shown.

The language of a block says how it is checked; `tests.docs.blocks` lists the comments that say more.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import psycopg
import pytest
import yaml

from streamling.cli.main import cli
from streamling.connectors.memory import collected_rows
from streamling.dev.pipeline_tests.load import load_files
from streamling.dev.pipeline_tests.model import Case, CaseFile, Expectation, HttpAnswer, SourceInput
from streamling.dev.pipeline_tests.run_case import run_cases
from streamling.dev.services.postgres import LocalPostgres
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.schema import settings
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.model import NodeKind
from streamling.plugins import FreeFormOptions, Sink
from streamling.plugins.registry import Registry
from streamling.sql.problems import InvalidSql
from streamling.types.json import json_rows
from tests.dev.pipeline_tests.driver import problems
from tests.docs.blocks import PAGES, Block
from tests.docs.pipelines import (
    BLOCKS,
    SECTIONS,
    check_pipeline,
    check_sql,
    completed,
    folder_of,
    is_whole,
    runnable,
    shown_rows,
)
from tests.harness.pipelines import Bench, eventually, finish
from tests.harness.plugins import load_plugins
from tests.paths import ROOT

#: why a block of text may be left unchecked
REASONS = {"diagram", "output", "notation"}

_PLUGIN_PRELUDE = "import pyarrow as pa\nimport pyarrow.compute as pc\nfrom streamling.plugins import *\n\n"
_COMMAND = re.compile(r"(?<![\w./'\[-])streamling (?=[a-z-])[^|;&)<>\"`#]*")
_VARIABLE = re.compile(r"STREAMLING__[\w<>]+[A-Z0-9>]")
_INLINE = re.compile(r"(?<!`)`(streamling [^`\n]+)`(?!`)")


def of(*languages: str) -> list[Any]:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """The built-in node types, and the plugins that the pages define or assume."""
    folder = tmp_path_factory.mktemp("plugins")
    files: dict[str, str] = {}
    for number, block in enumerate(BLOCKS):
        if block.language == "python" and defines_class(block):
            name = block.comments.get("file", f"block_{number}.py")
            if not name.startswith("test_"):
                files[name] = files.get(name, "" if "file" in block.comments else _PLUGIN_PRELUDE) + block.text + "\n\n"
    for name, text in files.items():
        (folder / name).write_text(text)
    registry = load_plugins(Registry.builtin(), folder)
    partner = type("PartnerSink", (Sink,), {"Options": FreeFormOptions})
    registry.register(NodeKind.SINK, "acme.partner_sink", partner)
    return registry


# ── nothing is left out ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_block_has_a_language_that_is_checked(page: Path) -> None:
    known = {"yaml", "bash", "console", "sql", "json", "python", "toml", "csv", "text"}
    name = page.relative_to(ROOT).as_posix()
    assert [str(block) for block in BLOCKS if block.page == name and block.language not in known] == []


def test_only_diagrams_output_and_notation_are_not_checked() -> None:
    marked = [block for block in BLOCKS if "not checked" in block.comments]
    assert all(block.language == "text" and block.comments["not checked"] in REASONS for block in marked), marked
    unmarked = [block for block in BLOCKS if block.language == "text" and block not in marked]
    assert [
        str(block)
        for block in unmarked
        if not (usages(block) or "query.sql" in block.data or "node types" in block.comments)
    ] == []


# ── pipelines and configuration ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_a_valid_pipeline_node_or_configuration(
    block: Block, registry: Registry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = yaml.safe_load(block.text)
    if data is None:
        assert all(line.startswith("#") for line in block.text.splitlines())
    elif any(section in data for section in SECTIONS):
        check_pipeline(block.text if is_whole(data) else yaml.safe_dump(completed(data, registry)), registry)
    elif set(data) == {"sql"}:
        check_sql(data["sql"], registry)
    elif "cases" in data:
        CaseFile.model_validate(load_yaml(block.text, block.page).data)
    else:
        (tmp_path / "config.yaml").write_text(block.text)
        load_config(cwd=tmp_path, env={})
        assert not caplog.messages  # such as a setting that does not exist


# ── pipelines that run ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spark
@pytest.mark.parametrize("block", runnable(), ids=str)
def test_a_pipeline_that_needs_no_service_gives_the_rows_that_the_page_shows(
    block: Block, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder_of(block, tmp_path))
    expected = shown_rows(block)
    run = Bench(spark).start(re.sub(r"type: print\b", "type: memory", block.text))
    try:
        sinks = {sink.name: len(expected.get(sink.name, [])) for sink in run.pipeline.sinks}
        eventually(lambda: enough(run.rows_written(), sinks), 60)
    finally:
        run.stop("the rows are there")
        finish(run)
    assert run.rows_written()
    for sink, rows in expected.items():
        found = [line for batch in collected_rows(run, sink).to_batches() for line in json_rows(batch)]
        assert sorted(found) == sorted(rows)


@pytest.mark.spark
def test_the_tests_of_the_page_on_testing_pass(spark: Any, tmp_path: Path) -> None:
    blocks = [block for block in BLOCKS if block.page == "docs/testing.md" and block.language == "yaml"]
    for block in blocks:
        if "file" in block.comments:
            (tmp_path / block.comments["file"]).write_text(block.text)
    files = [tmp_path / f"{number}.test.yaml" for number, block in enumerate(blocks) if "\ncases:" in block.text]
    for file in files:
        file.write_text(blocks[int(file.name.partition(".")[0])].text)
    cases = [case for file in load_files(files) for case in file.cases()]
    failed = {result.case.id: problems(result) for result in run_cases(cases, lambda: spark) if not result.passed}
    assert (len(cases), failed) == (9, {})


def test_the_page_on_testing_lists_every_field() -> None:
    page = (ROOT / "docs" / "testing.md").read_text()
    models = (CaseFile, Case, SourceInput, Expectation, HttpAnswer)
    names = {info.alias or name for model in models for name, info in model.model_fields.items()}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def enough(written: Any, expected: dict[str, int]) -> bool:
    return all(written.get(sink, 0) >= max(count, 1) for sink, count in expected.items())


@pytest.mark.parametrize("block", [block for block in BLOCKS if "same as" in block.comments], ids=str)
def test_a_block_that_repeats_a_file_is_equal_to_it(block: Block) -> None:
    assert block.text == (ROOT / block.comments["same as"]).read_text()


def test_pipelines_with_shown_rows_are_run() -> None:
    """The search for them works: pages show rows, and no block of rows is passed over."""
    run = runnable()
    marked = [block for block in BLOCKS if "rows" in block.comments]
    assert sum(len(shown_rows(block)) for block in run) >= len(marked) + 1
    assert {"README.md", "docs/index.md", "docs/get-started.md", "docs/llms.md"} <= {block.page for block in run}


# ── commands ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("block", of("bash", "console"))
def test_commands_exist_and_have_these_options(block: Block) -> None:
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.language == "console":
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    assert lines or "file" in block.comments, "a console block needs a prompt: $ command"
    for line in lines:
        for command in _COMMAND.findall(re.sub(r"pip install [^;&|]*", "", line)):
            parse_command(shlex.split(command, comments=True)[1:])
        for target in re.findall(r"^make ([a-z-]+)", line):
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target
        for extra in re.findall(r"streamling\[(\w+)\]", line):
            assert extra in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_examples_in_commands_exist() -> None:
    for block in BLOCKS:
        for path in re.findall(r"(?<![\w/])examples/[\w./-]*\w", block.text):
            assert (ROOT / path).exists(), f"{block}: {path}"


def parse_command(args: list[str]) -> None:
    """Parse ``args`` with the real parser, without running anything or reading files."""
    command: click.Command = cli
    context = click.Context(cli, info_name="streamling")
    while isinstance(command, click.Group):
        if args and args[0] in ("--help", "--version"):
            return
        name = args[0] if args else ""
        found = command.get_command(context, name)
        if found is None and command is cli and "." in name:  # `streamling FILE`
            found, args = cli.get_command(context, "run"), ["run", *args]
        assert found is not None, f"there is no command '{name}'"
        command, args = found, args[1:]
        context = click.Context(command, info_name=name, parent=context)
    values, rest, _ = command.make_parser(context).parse_args(args)
    assert not rest, f"too many arguments: {rest}"
    for param in command.get_params(context):
        value = values.get(param.name or "")
        if param.required:
            assert value is not None, f"{param.name} is missing"
        if isinstance(param.type, click.Choice | click.types.IntParamType) and isinstance(value, str):
            param.type.convert(value, param, context)


def usages(block: Block) -> list[str]:
    return [line for line in block.text.splitlines() if line.startswith("streamling ")]


@pytest.mark.parametrize("block", [param for param in of("text") if usages(param.values[0])])
def test_usage_lines_name_commands_and_options(block: Block) -> None:
    for line in block.text.replace("\n   ", " ").splitlines():
        check_usage(line.partition("#")[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_in_the_text_name_commands_and_options(page: Path) -> None:
    for command in _INLINE.findall(page.read_text()):
        if "…" not in command:
            check_usage(command)


def check_usage(line: str) -> None:
    """``streamling state show [PIPELINE_FILE] [--json]``: the command and each option are known."""
    command: click.Command = cli
    context = click.Context(cli, info_name="streamling")
    words = re.findall(r"[^\s\[\]|=]+", line)[1:]
    while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        name, words = words[0], words[1:]
        found = command.get_command(context, name)
        assert found is not None, f"{line}: there is no command '{name}'"
        command = found
    if command is cli and words and not words[0].startswith("-"):  # `streamling FILE`
        run = cli.get_command(context, "run")
        assert run is not None
        command = run
    known = {option for param in command.params for option in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}
    words = words[: words.index("--")] if "--" in words else words
    unknown = [word for word in words if word.startswith("-") and word not in known]
    assert not unknown or isinstance(command, click.Group), f"{line}: there is no option {unknown}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_variables_of_the_environment_are_settings(page: Path) -> None:
    known = [setting.variable.replace("__<NAME>", r"(__\w+)?") for setting in settings(AppConfig)]
    known.append("STREAMLING__PLUGIN__X__X")  # what a plugin reads for itself
    named = {re.sub(r"<\w+>", "X", name) for name in _VARIABLE.findall(page.read_text())}
    assert [name for name in sorted(named) if not any(re.fullmatch(pattern, name) for pattern in known)] == []


# ── other languages ─────────────────────────────────────────────────────────────────────────────────────────


def test_sql_is_that_of_the_sql_transform(registry: Registry) -> None:
    for block in BLOCKS:
        if block.language == "sql" and "postgres" not in block.comments:
            check_sql(block.text, registry)


def test_an_error_of_sql_is_the_one_that_is_shown(registry: Registry) -> None:
    shown = [block for block in BLOCKS if "query.sql" in block.data]
    assert shown
    for block in shown:
        with pytest.raises(InvalidSql) as raised:
            check_sql(block.data["query.sql"], registry)
        assert str(raised.value).strip() == block.text.strip()


@pytest.mark.services
@pytest.mark.parametrize("page", sorted({block.page for block in BLOCKS if "postgres" in block.comments}))
def test_sql_for_postgres_runs_there(page: str, postgres: LocalPostgres) -> None:
    """All statements of a page, in order, in a database of their own."""
    server = f"host=127.0.0.1 port={postgres.port} user=postgres"
    database = f"docs_{uuid4().hex}"
    with psycopg.connect(f"{server} dbname=postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}")
    with psycopg.connect(f"{server} dbname={database}", autocommit=True) as connection:
        connection.execute("CREATE SCHEMA streamling")
        for block in BLOCKS:
            if block.page == page and "postgres" in block.comments:
                connection.execute(block.text)


@pytest.mark.parametrize("block", of("json"))
def test_json_is_one_value_or_one_per_line(block: Block) -> None:
    try:
        json.loads(block.text)
    except json.JSONDecodeError:
        for line in block.text.splitlines():
            json.loads(line)


@pytest.mark.parametrize("block", of("csv"))
def test_csv_is_a_file_that_a_pipeline_reads(block: Block) -> None:
    assert "file" in block.comments
    assert len({line.count(",") for line in block.text.splitlines()}) == 1


@pytest.mark.parametrize("block", of("toml"))
def test_toml_can_be_parsed(block: Block) -> None:
    assert tomllib.loads(block.text)


def defines_class(block: Block) -> bool:
    return any(isinstance(node, ast.ClassDef) for node in ast.parse(block.text).body)


@pytest.mark.parametrize("block", of("python"))
def test_python_compiles_and_imports_what_exists(block: Block) -> None:
    compile(block.text, str(block), "exec")
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("streamling"):
            module = import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def test_plugins_of_the_pages_are_registered(registry: Registry) -> None:
    declared = [
        (block, id)
        for block in BLOCKS
        if block.language == "python"
        for id in re.findall(r'^@plugin\("([\w.]+)"\)', block.text, re.MULTILINE)
    ]
    assert len(declared) >= 5
    known = {id for kind in NodeKind for id in registry.ids(kind)} | {*registry.preprocessors, *registry.functions}
    assert [f"{block}: {id}" for block, id in declared if id not in known] == []
