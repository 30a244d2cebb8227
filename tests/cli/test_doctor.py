"""`doctor`: the checks of this machine, as text, as JSON, as an exit code."""

import json


def test_this_machine_can_run_pipelines(project):
    result = project.call("doctor")
    assert result.code == 0
    assert "✓ Python" in result.out
    assert "✓ Java" in result.out


def test_the_checks_as_json(project):
    checks = json.loads(project.call("doctor", "--json").out)
    assert {"name", "status", "found", "remedy"} == set(checks[0])


def test_something_needed_that_is_missing_is_told_with_exit_code_1(project, monkeypatch):
    project.write("a_file", "")
    monkeypatch.setenv("STREAMLING__CACHE_DIR", str(project.folder / "a_file"))
    result = project.call("doctor")
    assert result.code == 1
    assert "✗ Cache folder" in result.out
    assert "→ set cache_dir" in result.out


def test_a_bad_configuration_is_78(project):
    project.write("config.yaml", "checkpoint_interval_sec: soon\n")
    assert project.call("doctor").code == 78
