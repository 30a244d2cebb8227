"""`state show|export|reset` on a real SQLite file."""

import json

import pytest

from streamling.engine.state.ownership import lock_state
from streamling.engine.state.sqlite import SqliteState


@pytest.fixture
def remembered(project):
    """A project whose last run left state, beside another application's entries."""
    path = project.folder / "state.db"
    with SqliteState("pipeline", path) as state:
        state.put_many({"orders:bounded_progress": {"completed": [{"first": "a", "last": "b"}]}, "gone": 7})
    with SqliteState("another", path) as state:
        state.put("orders:bounded_progress", 1)
    return project


def _entries(project) -> dict:
    with SqliteState("pipeline", project.folder / "state.db") as state:
        return state.items()


def test_show_lists_the_entries_of_each_node(remembered):
    result = remembered.call("state", "show")
    assert result.code == 0
    assert result.err == f"2 entries of pipeline ({remembered.folder}/state.db)\n"
    assert [line.split(maxsplit=2) for line in result.out.splitlines()] == [
        ["NODE", "KEY", "VALUE"],
        ["gone", "gone", "7"],
        ["orders", "orders:bounded_progress", '{"completed": [{"first": "a", "last": "b"}]}'],
    ]


def test_show_marks_nodes_that_are_no_longer_in_the_file(remembered):
    lines = remembered.call("state", "show", "pipeline.yaml").out.splitlines()
    assert lines[1].startswith("gone (not in the file)  gone")
    assert lines[2].startswith("orders  ")


def test_show_of_one_node_as_json(remembered):
    result = remembered.call("state", "show", "--node", "gone", "--json")
    assert json.loads(result.out) == [{"node": "gone", "key": "gone", "value": 7}]


@pytest.mark.parametrize("command", [("show",), ("export",), ("reset", "--yes")], ids=" ".join)
def test_showing_a_missing_state_does_not_create_it(project, command):
    result = project.call("state", *command)
    assert result.code == 0
    assert not (project.folder / "state.db").exists()


def test_an_empty_state_is_reported(project):
    assert "there is no state of pipeline" in project.call("state", "show").err


@pytest.mark.parametrize("command", [("show",), ("export",), ("reset", "--yes")])
def test_without_a_pipeline_file_one_must_be_named(remembered, command):
    (remembered.folder / "pipeline.yaml").rename(remembered.folder / "orders.yaml")
    with SqliteState("pipeline", remembered.folder / "state.db") as state:
        state.clear()
    result = remembered.call("state", *command)
    assert result.code == 2
    assert "pipeline.yaml; name the file whose state you mean" in result.err


def test_state_in_memory_cannot_be_shown(project, monkeypatch):
    monkeypatch.setenv("STREAMLING__STATE_BACKEND__BACKEND_TYPE", "InMemory")
    result = project.call("state", "show")
    assert (result.code, result.out) == (0, "")
    assert "InMemory: the state is lost when the process ends" in result.err


def test_export_is_json_with_full_values(remembered):
    saved = json.loads(remembered.call("state", "export").out)
    assert saved == {"application_id": "pipeline", "entries": _entries(remembered)}


def test_reset_deletes_only_this_application(remembered):
    result = remembered.call("state", "reset", "--yes")
    assert result.code == 0
    assert result.err == "deleted 2 entries of pipeline\n"
    assert _entries(remembered) == {}
    with SqliteState("another", remembered.folder / "state.db") as state:
        assert state.items() == {"orders:bounded_progress": 1}


def test_reset_of_one_node_leaves_the_others(remembered):
    remembered.call("state", "reset", "--node", "orders", "--yes")
    assert _entries(remembered) == {"gone": 7}


def test_reset_asks_and_accepts_no(remembered, monkeypatch):
    import io

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    result = remembered.call("state", "reset")
    assert result.code == 1
    assert result.err.endswith("nothing was deleted\n")
    assert "Delete 2 entries of pipeline?" in result.err
    assert len(_entries(remembered)) == 2


def test_reset_needs_yes_if_it_cannot_ask(remembered):
    result = remembered.command("state", "reset")
    assert result.code == 2
    assert "add --yes" in result.err
    assert len(_entries(remembered)) == 2


def test_a_misspelt_node_is_rejected_with_a_suggestion(remembered):
    result = remembered.call("state", "reset", "--node", "order", "--yes")
    assert result.code == 2
    assert "did you mean 'orders'?" in result.err
    assert len(_entries(remembered)) == 2


def test_each_file_has_its_own_state(remembered):
    remembered.write("another.yaml", (remembered.folder / "pipeline.yaml").read_text())
    assert remembered.call("state", "show", "another.yaml").err.startswith("1 entry of another (")


def test_a_file_can_declare_its_name(remembered):
    remembered.write("moved.yaml", "name: another\n" + (remembered.folder / "pipeline.yaml").read_text())
    assert remembered.call("state", "show", "moved.yaml").err.startswith("1 entry of another (")


def test_the_name_of_a_file_may_come_from_the_environment(remembered, monkeypatch):
    remembered.write("moved.yaml", "name: ${NAME}\n" + (remembered.folder / "pipeline.yaml").read_text())
    monkeypatch.setenv("NAME", "another")
    assert remembered.call("state", "show", "moved.yaml").err.startswith("1 entry of another (")
    monkeypatch.delenv("NAME")
    assert (
        "moved.yaml:1:7: the environment variable 'NAME' is not set"
        in remembered.call("state", "show", "moved.yaml").err
    )


def test_the_configuration_can_name_the_pipeline(remembered, monkeypatch):
    monkeypatch.setenv("STREAMLING__APPLICATION_ID", "another")
    assert remembered.call("state", "show", "pipeline.yaml").err.startswith("1 entry of another (")


def test_state_under_the_former_default_name_is_found(project):
    with SqliteState("local_app_v1", project.folder / "state.db") as state:
        state.put_many({"orders:bounded_progress": 1, "other:bounded_progress": 2})
    result = project.call("state", "show", "pipeline.yaml", "--json")
    assert {row["key"]: row["value"] for row in json.loads(result.out)}["orders:bounded_progress"] == 1


def test_import_restores_what_export_wrote(remembered):
    before = _entries(remembered)
    remembered.write("backup.json", remembered.call("state", "export").out)
    remembered.call("state", "reset", "--yes")
    result = remembered.call("state", "import", "backup.json")
    assert (result.code, result.err) == (0, "stored 2 entries of pipeline\n")
    assert _entries(remembered) == before


def test_import_of_one_node_into_another_pipeline(remembered):
    remembered.write("backup.json", remembered.call("state", "export").out)
    remembered.write("fresh.yaml", (remembered.folder / "pipeline.yaml").read_text())
    result = remembered.call("state", "import", "backup.json", "fresh.yaml", "--node", "orders")
    assert (result.code, result.err) == (0, "stored 1 entry of fresh\n")
    with SqliteState("fresh", remembered.folder / "state.db") as state:
        assert list(state.items()) == ["orders:bounded_progress"]


def test_import_does_not_replace_entries_without_yes(remembered):
    remembered.write("backup.json", remembered.call("state", "export").out)
    assert "add --yes" in remembered.call("state", "import", "backup.json").err
    assert remembered.call("state", "import", "backup.json", "--yes").code == 0


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"entries": 7}', '{"entries": {}}'])
def test_import_of_something_else_is_an_error(remembered, text):
    remembered.write("backup.json", text)
    result = remembered.call("state", "import", "backup.json")
    assert result.code == 1
    assert result.err.startswith("error: backup.json ")


@pytest.mark.parametrize("command", [("reset", "--yes"), ("import", "backup.json", "--yes")], ids=" ".join)
def test_the_state_of_a_running_pipeline_is_not_changed(remembered, command):
    remembered.write("backup.json", remembered.call("state", "export").out)
    with lock_state(remembered.folder / "state.db", "pipeline"):
        result = remembered.call("state", *command)
    assert result.code == 1
    assert "is in use by process" in result.err
    assert len(_entries(remembered)) == 2


def test_settings_can_come_from_a_file(remembered):
    remembered.write("a.env", "STREAMLING__APPLICATION_ID=another\n")
    assert remembered.call("state", "show", "--env-file", "a.env").err.startswith("1 entry of another (")
