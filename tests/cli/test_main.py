"""The command group: what is accepted, what is rejected and how, without a JVM."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from streamling import __version__
from tests.cli.conftest import BROKEN, PIPELINE, Project, clean_environment, command_line

COMMANDS = ("run", "validate", "test", "plan", "new", "schema", "state", "doctor", "plugins", "completion")
PAGES = [
    *((command,) for command in COMMANDS),
    *(("state", command) for command in ("show", "export", "reset")),
    ("plugins", "list"),
]


def test_the_first_page_lists_every_command_and_the_exit_codes(project):
    page = project.call("--help")
    assert page.code == 0
    assert set(COMMANDS) <= set(re.findall(r"^  (\w+)  ", page.out, re.MULTILINE))
    assert "78  invalid pipeline or configuration" in page.out


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_a_help_page_has_an_example_and_the_exit_codes(project, command):
    page = project.call(*command, "--help")
    assert page.code == 0
    assert f"streamling {' '.join(command)}" in page.out.split("Usage:")[1].split("\n", 1)[1] or "Install" in page.out
    assert "Exit codes:" in page.out
    assert "2   wrong usage" in page.out


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_every_option_is_explained(project, command):
    options = project.call(*command, "--help").out.split("Options:")[1].split("Exit codes:")[0]
    unexplained = [line for line in options.splitlines() if re.fullmatch(r"  -[^ ]*( [A-Z]+)?", line)]
    assert not unexplained


def test_the_version_is_printed(project):
    assert project.call("--version").out == f"streamling, version {__version__}\n"


# ── wrong usage ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("validte", "x.yaml"), "there is no command 'validte'; did you mean 'validate'?"),
        (("Plan",), "there is no command 'Plan'; did you mean 'plan'?"),
        (("frobnicate",), "there is no command 'frobnicate'; there is no file with that name either."),
        (("state", "shwo"), "there is no command 'shwo'; did you mean 'show'?"),
        (("plugins", "xyz"), "there is no command 'xyz'; commands: list, new."),
        (("run", "--confg", "x"), "No such option '--confg'. Did you mean '--config'?"),
        (("pipeline.yaml", "--dryrun"), "Did you mean '--dry-run'?"),
        (("run", "a.yaml", "b.yaml"), "unexpected extra argument (b.yaml)"),
        (("run", "a.yaml", "--metrics-file", "no/such.prom"), "the folder 'no' does not exist"),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (("new",), "Missing argument 'DIR'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_wrong_usage_exits_with_2_and_a_suggestion(project, args, message):
    result = project.call(*args)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_a_word_that_is_not_a_command_can_be_a_file(project):
    project.write("plann", BROKEN)
    result = project.call("plann", "--dry-run")
    assert result.code == 78
    assert "plann:" in result.err


@pytest.mark.parametrize(
    "args", [("nope.yaml",), ("run", "nope.yaml"), ("validate", "nope.yaml"), ("plan", "nope.yaml")]
)
def test_a_missing_file_is_a_bad_pipeline(project, args):
    result = project.call(*args)
    assert result.code == 78
    assert result.err.startswith("error: nope.yaml: the pipeline file cannot be read: No such file or directory\n")


def test_without_arguments_the_help_is_printed(project):
    result = project.call()
    assert result.code == 0
    assert result.out.startswith("Usage: streamling")
    assert result.out == project.call("--help").out


def test_without_arguments_the_file_that_the_environment_names_runs(project, monkeypatch):
    monkeypatch.setenv("STREAMLING__PIPELINE_DEFINITION_LOCATION", "nope.yaml")
    result = project.call()
    assert result.code == 78
    assert "nope.yaml: the pipeline file cannot be read" in result.err


# ── mistakes in files ────────────────────────────────────────────────────────────────────────────────────────


def test_an_invalid_pipeline_is_reported_in_one_block_without_a_trace(project: Project):
    project.write("pipeline.yaml", BROKEN)
    result = project.command("pipeline.yaml")
    assert (result.code, result.out) == (78, "")
    assert result.err.startswith("error: pipeline.yaml:14:")
    assert "did you mean 'large'?" in result.err
    assert "Traceback" not in result.err


def test_debug_adds_the_trace(project):
    project.write("pipeline.yaml", BROKEN)
    result = project.call("run", "pipeline.yaml", "--debug")
    assert result.code == 78
    assert "Traceback (most recent call last)" in result.err
    assert result.err.startswith("error: pipeline.yaml:14:")


def test_validate_reports_a_static_error_in_the_json_of_the_rust_implementation(project: Project):
    project.write("pipeline.yaml", BROKEN)
    result = project.command("--validate", "pipeline.yaml")
    assert result.code == 1
    verdict = json.loads(result.out)
    assert list(verdict) == ["success", "is_valid", "errors", "warnings"]
    assert (verdict["success"], verdict["is_valid"], verdict["warnings"]) == (True, False, [])
    assert [error.split(":")[0] for error in verdict["errors"]] == ["pipeline.yaml"]
    assert result.out.startswith('{\n  "success": true,\n')


AGGREGATE = (
    PIPELINE.partition("transforms:")[0]
    + """\
transforms: {}
sinks:
  totals:
    type: postgres_aggregate
    from: orders
    schema: shop
    landing_table: order_log
    agg_table: sales
    group_by: {item: {}}
    aggregate: {turnover: {from: price, fn: sum, type: "numeric(20,2)"}, orders: {fn: count}}
"""
)


def test_an_aggregate_is_checked_without_postgres(project: Project, monkeypatch):
    monkeypatch.setenv("STREAMLING__POSTGRES_SINK__PORT", "1")
    project.write("pipeline.yaml", AGGREGATE)
    assert project.call("run", "pipeline.yaml", "--validate").code == 0
    project.write("pipeline.yaml", AGGREGATE.replace("from: price", "from: prize"))
    result = project.call("run", "pipeline.yaml", "--validate")
    assert result.code == 1
    (error,) = json.loads(result.out)["errors"]
    assert (
        "postgres_aggregate sink 'totals': `aggregate.turnover` uses the column 'prize', which is not one of" in error
    )
    assert "did you mean 'price'?" in error


def test_a_bad_configuration_is_78_and_json_under_validate(project, monkeypatch):
    monkeypatch.setenv("STREAMLING__CHECKPOINT_INTERVAL_SEC", "soon")
    assert project.call("run", "pipeline.yaml").code == 78
    result = project.call("run", "pipeline.yaml", "--validate")
    assert result.code == 1
    assert "CHECKPOINT_INTERVAL_SEC" in json.loads(result.out)["errors"][0]


def test_errors_come_in_stages(project):
    """README.md, AGENTS.md, docs/cli.md and docs/llms.md say so."""
    two_columns = PIPELINE.replace("SELECT id,", "SELECT idd,").replace("price > 1", "prise > 1")
    project.write("pipeline.yaml", two_columns.replace("from: large", "from: lage").replace("csv", "cvs"))
    of_file = project.call("validate", "--static").err
    assert "reads from 'lage'" in of_file
    assert "'cvs'" in of_file
    assert "2 problems found" in of_file
    project.write("pipeline.yaml", two_columns)
    of_columns = project.call("validate", "--static").err
    assert "there is no column 'idd'" in of_columns
    assert "there is no column 'prise'" in of_columns
    assert "2 problems found" in of_columns


RISKY = PIPELINE.replace("price > 1", "item = NULL")


def test_warnings_do_not_fail_the_check(project):
    project.write("pipeline.yaml", RISKY)
    result = project.call("validate", "pipeline.yaml", "--static")
    assert (result.code, result.out) == (0, "pipeline.yaml is valid, with 1 warning\n")
    assert result.err.splitlines() == [
        "warning: pipeline.yaml:12:64: sql transform 'large': a comparison = NULL is never true",
        "    SELECT id, item, price * 2 AS price FROM orders WHERE item = NULL",
        f"    {' ' * 54}^^^^",
        "  help: write IS NULL",
    ]
    verdict = json.loads(project.call("validate", "--static", "--json").out)
    assert (verdict["is_valid"], verdict["errors"], len(verdict["warnings"])) == (True, [], 1)
    assert "a comparison = NULL is never true (write IS NULL)" in verdict["warnings"][0]


def test_strict_turns_warnings_into_errors(project):
    project.write("pipeline.yaml", RISKY)
    result = project.call("validate", "--static", "--strict")
    assert (result.code, result.out) == (78, "")
    assert result.err.endswith("pipeline.yaml has 1 warning, and --strict is on\n")
    as_json = project.call("validate", "--static", "--strict", "--json")
    verdict = json.loads(as_json.out)
    assert (as_json.code, verdict["is_valid"], len(verdict["errors"]), verdict["warnings"]) == (1, False, 1, [])
    project.write("pipeline.yaml", PIPELINE)
    assert project.call("validate", "--static", "--strict").code == 0


def test_logged_warnings_count_too(project):
    project.write("config.yaml", "aplication_id: x\n")
    assert "is valid, with 1 warning" in project.call("validate", "--static").out
    assert project.call("validate", "--static", "--strict").code == 78


def test_warnings_of_the_configuration_are_part_of_the_result(project):
    project.write("config.yaml", "aplication_id: x\n")
    verdict = json.loads(project.call("validate", "--static", "--json", "pipeline.yaml").out)
    assert verdict["is_valid"]
    assert len(verdict["warnings"]) == 1
    assert "aplication_id" in verdict["warnings"][0]


def test_config_names_another_file(project):
    project.write("production.yaml", "pipeline_definition_location: other.yaml\n")
    result = project.call("validate", "--static", "--config", "production")
    assert result.code == 78
    assert "other.yaml: the pipeline file cannot be read" in result.err
    assert "missing.yaml" in project.call("validate", "--config", "missing").err


def test_a_valid_file_is_reported_without_a_jvm(project):
    result = project.call("validate", "--static", "pipeline.yaml")
    assert (result.code, result.out) == (0, "pipeline.yaml is valid\n")
    assert not (project.folder / "state.db").exists()


def test_secrets_of_the_configuration_are_never_shown(project, monkeypatch):
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__BACKEND_TYPE", "Postgres")
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__POSTGRES__HOST", "127.0.0.1")
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__POSTGRES__PORT", "1")
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__POSTGRES__PASSWORD", "hunter2")
    for args in (("state", "show"), ("state", "show", "--debug"), ("plan", "pipeline.yaml"), ("plan", "--json")):
        result = project.call(*args)
        assert "hunter2" not in result.out + result.err
    assert project.call("state", "show").code == 1


# output that fits into Python's buffer fails later than output that does not
@pytest.mark.parametrize("args", [("schema",), ("completion", "bash"), ("--help",), ("run", "--help")], ids=" ".join)
def test_a_closed_pipe_ends_quietly(project: Project, args):
    with subprocess.Popen(
        command_line(*args), cwd=project.folder, env=clean_environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# ── documentation ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", PAGES, ids=" ".join)
def test_the_documentation_lists_every_option(project, command):
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    options = re.findall(r"(--[a-z-]+)", project.call(*command, "--help").out.split("Options:")[1])
    assert not [option for option in {*options} - {"--help"} if option not in page]
