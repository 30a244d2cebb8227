"""`doctor`: the checks of this machine, as text, as JSON, as an exit code."""

import json
import re


def test_this_machine_can_run_pipelines(project):
    result = project.call("doctor")
    assert result.code == 0
    assert "✓ Python" in result.out
    assert "✓ Java" in result.out


def test_the_checks_as_json(project):
    checks = json.loads(project.call("doctor", "--json").out)
    assert {"name", "status", "found", "remedy"} == set(checks[0])


def test_a_missing_requirement_is_reported_with_exit_code_1(project, monkeypatch):
    project.write("a_file", "")
    monkeypatch.setenv("STREAMLING__CACHE_DIR", str(project.folder / "a_file"))
    result = project.call("doctor")
    assert result.code == 1
    assert "✗ Cache folder" in result.out
    assert "→ set cache_dir" in result.out


def test_a_connection_of_the_pipeline_that_fails_is_reported_with_its_latency_and_remedy(project, monkeypatch):
    project.write(
        "table.yaml",
        "sources:\n  orders: {type: file, path: orders, format: csv, mode: {type: bounded}, primary_key: id}\n"
        "sinks:\n  table: {type: postgres, from: orders, schema: shop, table: orders}\n",
    )
    monkeypatch.setenv("STREAMLING__POSTGRES_SINK__HOST", "127.0.0.1")
    monkeypatch.setenv("STREAMLING__POSTGRES_SINK__PORT", "1")
    result = project.call("doctor", "table.yaml")
    assert result.code == 1
    assert re.search(r"✓ orders: files +orders, \d+ ms, 1 file$", result.out, re.MULTILINE), result.out
    assert re.search(r"✗ table: Postgres +.*Connection refused, \d+ ms$", result.out, re.MULTILINE), result.out
    assert "→ start the server, or correct postgres_sink.host or postgres_sink.port" in result.out


def test_a_bad_configuration_is_78(project):
    project.write("config.yaml", "checkpoint_interval_sec: soon\n")
    assert project.call("doctor").code == 78
