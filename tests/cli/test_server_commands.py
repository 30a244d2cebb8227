"""The commands for a server, against one real server process."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from streamling.cli._server import ServerClient
from streamling.network.http.blocking import send_request
from tests.cli.conftest import Project, Result, clean_environment, command_line
from tests.harness.endpoint import Reply, Request, endpoint
from tests.harness.pipelines import eventually
from tests.harness.terminal import Terminal
from tests.serve.definitions import write_csv
from tests.serve.server import ServeProcess

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ADMIN, VIEWER = "admin-token-3f7a", "viewer-token-91cc"
PIPELINE = """\
sources:
  orders: {type: file, path: FOLDER, format: csv, mode: {type: continuous, poll_interval: 1s}, primary_key: id}
transforms:
  large: {type: sql, primary_key: id, sql: "SELECT id FROM orders WHERE id > 1"}
sinks:
  out: {type: blackhole, from: large}
"""


@dataclass(frozen=True)
class Running:
    url: str
    folder: Path

    @property
    def pipeline(self) -> str:
        return PIPELINE.replace("FOLDER", str(self.folder / "orders"))

    @property
    def api(self) -> ServerClient:
        return ServerClient(self.url, ADMIN)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, cache_dir: Path) -> Iterator[Running]:
    """A server process with two tokens; all tests of this file use it."""
    folder = tmp_path_factory.mktemp("served")
    write_csv(folder / "orders" / "a.csv", range(1, 4))
    env = {
        "HOME": str(folder),
        "STREAMLING__CACHE_DIR": str(cache_dir),
        "STREAMLING__CHECKPOINT_INTERVAL_SEC": "0.2",
        "STREAMLING__SERVE__TOKENS__ADMIN__VALUE": ADMIN,
        "STREAMLING__SERVE__TOKENS__ADMIN__ROLE": "admin",
        "STREAMLING__SERVE__TOKENS__VIEWER__VALUE": VIEWER,
    }
    process = ServeProcess(folder, env)
    process.start()
    try:
        yield Running(process.address, folder)
        assert process.terminate() == 0, process.log()
    finally:
        process.kill()


@pytest.fixture
def fleet(served: Running, project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    """A project whose commands go to the server, which has no pipelines before and after."""
    monkeypatch.setenv("STREAMLING_SERVER", served.url)
    monkeypatch.setenv("STREAMLING_TOKEN", ADMIN)
    project.write("orders.yaml", served.pipeline)
    yield project
    for item in served.api.pages("/pipelines", {}):
        project.call("delete", item["name"], "-n", item["namespace"], "--yes", "--wait", "--delete-state")
    assert list(served.api.pages("/pipelines", {})) == []


def parsed(result: Result) -> Any:
    assert result.code == 0, result.err
    return json.loads(result.out)


def pipeline(fleet: Project, name: str = "orders") -> Any:
    return parsed(fleet.call("describe", name, "--json"))


def give(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


# ── apply ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_apply_creates_then_does_nothing_then_updates(fleet: Project, served: Running) -> None:
    assert "orders  created  running  orders.yaml" in fleet.call("apply", "orders.yaml", "--wait").out
    eventually(lambda: pipeline(fleet)["rows"] == {"out": 2})
    assert "orders  unchanged  running" in fleet.call("apply", "orders.yaml").out
    assert pipeline(fleet)["generation"] == 1
    fleet.write("orders.yaml", served.pipeline.replace("id > 1", "id > 2"))
    (result,) = parsed(fleet.call("apply", "orders.yaml", "--wait", "--json"))
    assert {key: result[key] for key in ("name", "namespace", "result", "generation", "state", "error")} == {
        "name": "orders", "namespace": "default", "result": "updated", "generation": 2, "state": "running",
        "error": None,
    }  # fmt: skip
    assert "id > 2" in pipeline(fleet)["definition"]


def test_apply_keeps_what_no_option_changes(fleet: Project, served: Running) -> None:
    settings = ("--set", "checkpoint_interval_sec=1.5", "--set", "job_mode=false")
    fleet.call("apply", "orders.yaml", "--size", "s", *settings)
    fleet.call("pause", "orders", "--wait")
    fleet.write("orders.yaml", served.pipeline.replace("id > 1", "id > 2"))
    assert "updated  paused" in fleet.call("apply", "orders.yaml", "--wait").out
    found = pipeline(fleet)
    assert (found["size"], found["desired"]) == ("s", "paused")
    assert found["config"] == {"checkpoint_interval_sec": 1.5, "job_mode": False}
    assert "updated" in fleet.call("apply", "orders.yaml", "--size", "l", "--set", "job_mode=false").out
    assert (pipeline(fleet)["size"], pipeline(fleet)["config"]) == ("l", {"job_mode": False})


def test_the_name_is_that_of_the_option_the_file_or_its_file_name(fleet: Project, served: Running) -> None:
    fleet.write("named.yaml", f"name: shop\n{served.pipeline}")
    fleet.call("apply", "orders.yaml", "named.yaml")
    fleet.call("apply", "orders.yaml", "--name", "third", "-n", "other")
    names = [(item["namespace"], item["name"]) for item in parsed(fleet.call("ls", "--json"))]
    assert names == [("default", "orders"), ("default", "shop"), ("other", "third")]
    assert [item["name"] for item in parsed(fleet.call("ls", "--json", "-n", "other"))] == ["third"]
    both = fleet.call("apply", "orders.yaml", "named.yaml", "--name", "x")
    assert (both.code, "--name needs exactly one FILE" in both.err) == (2, True)


def test_a_bad_file_is_reported_in_place_and_the_others_are_applied(fleet: Project, served: Running) -> None:
    fleet.write("bad.yaml", served.pipeline.replace("from: large", "from: lage"))
    result = fleet.call("apply", "bad.yaml", "missing.yaml", "orders.yaml")
    assert result.code == 78
    assert "error: bad.yaml:6:32: blackhole sink 'out' reads from 'lage'" in result.err
    assert "error: missing.yaml: the pipeline file cannot be read: No such file or directory" in result.err
    assert [line.split()[:2] for line in result.out.splitlines()[1:]] == [
        ["bad", "failed"], ["missing", "failed"], ["orders", "created"]
    ]  # fmt: skip
    assert [item["name"] for item in parsed(fleet.call("ls", "--json"))] == ["orders"]


def test_waiting_ends_with_the_error_of_a_pipeline_that_fails(fleet: Project, served: Running) -> None:
    fleet.write("orders.yaml", served.pipeline.replace("id FROM", "CAST(CONCAT('x', id) AS BIGINT) AS id FROM"))
    result = fleet.call("apply", "orders.yaml", "--wait")
    assert result.code == 1
    assert "error: orders has failed: " in result.err
    assert "sql transform 'large'" in result.err
    assert re.search(r"orders +created +failed +orders\.yaml", result.out)
    listed = fleet.call("ls", "--state", "failed")
    assert re.search(r"default +orders +failed +no .*sql transform 'large'", listed.out)
    assert "sql transform 'large'" in fleet.call("describe", "orders").out


def test_a_crash_loop_shows_its_error_its_restarts_and_its_next_attempt(fleet: Project, served: Running) -> None:
    """Nothing listens where Postgres is by default."""
    fleet.write(
        "orders.yaml",
        served.pipeline.replace("type: blackhole", "type: postgres, schema: public, table: t, primary_key: id"),
    )
    fleet.call("apply", "orders.yaml")
    restarting = r"default +orders +restarting +no +0 +[1-9]\d* +.* next attempt in \d.*: postgres sink 'out': "
    eventually(lambda: re.search(restarting, fleet.call("ls", "--state", "restarting").out))
    found = fleet.call("describe", "orders").out
    assert re.search(r"restarts +[1-9]\d* since 20\d\d-", found), found
    assert re.search(r"error +postgres sink 'out': ", found), found


def test_waiting_has_a_limit(fleet: Project) -> None:
    result = fleet.call("apply", "orders.yaml", "--wait", "--timeout", "0")
    assert result.code == 1
    assert re.search(r"error: orders is \w+ after 0 s", result.err)
    assert "help: streamling logs orders" in result.err
    assert re.search(r"orders +created +\w+ +orders\.yaml", result.out)


def test_an_error_of_several_lines_is_shown_as_lines(fleet: Project, served: Running) -> None:
    two = '  other: {type: sql, primary_key: id, sql: "SELECT id FROM orders WHERE array_max(id) > 0"}\nsinks:\n'
    text = served.pipeline.replace("id > 1", "array_max(id) > 1").replace("sinks:\n", two)
    fleet.write("orders.yaml", f"{text}  more: {{type: blackhole, from: other}}\n")
    assert "sql transform 'other'" in fleet.call("apply", "orders.yaml", "--wait").err
    (listed,) = fleet.call("ls").out.splitlines()[1:]
    assert re.search(r"orders +failed .*sql transform 'large'.* …$", listed)
    described, logged = fleet.call("describe", "orders").out, fleet.call("logs", "orders").out
    for shown in (described, logged):
        assert "\\n" not in shown
        assert re.search(r"^ +\S.*sql transform 'other'", shown, re.MULTILINE), shown


@contextmanager
def between(server: str, method: str, change: Callable[[], None]) -> Iterator[str]:
    """A proxy in front of ``server`` that calls ``change`` before it passes on the first request with ``method``."""
    waiting = [change]

    def forward(request: Request) -> Reply:
        if request.method == method and waiting:
            waiting.pop()()
        headers = {name: value for name, value in request.headers.items() if name != "Host"}
        sent = send_request(
            server + request.path, headers=headers, data=request.text or None, method=request.method, seconds=60,
            max_bytes=10**6,
        )  # fmt: skip
        return Reply(sent.status, sent.body, {"Content-Type": sent.content_type})

    with endpoint(forward) as proxy:
        yield f"http://127.0.0.1:{proxy.port}"
    assert not waiting, "nothing was sent"


def test_a_change_of_somebody_else_is_a_conflict_and_nothing_is_changed(fleet: Project, served: Running) -> None:
    """Both for an update and for two clients that create the same pipeline."""
    theirs = {"definition": served.pipeline.replace("id > 1", "id > 7"), "desired": "paused"}

    def create() -> None:
        served.api.send("POST", "/pipelines", {"name": "orders", **theirs})

    def update() -> None:
        etag = served.api.get("/pipelines/default/orders")["etag"]
        served.api.send("PUT", "/pipelines/default/orders", {**theirs, "size": "xl"}, headers={"If-Match": etag})

    for change in (create, update):
        with between(served.url, "PUT", change) as proxy:
            result = fleet.call("apply", "orders.yaml", "--server", proxy)
        assert result.code == 1
        assert "orders was changed by somebody else while orders.yaml was applied; nothing was changed" in result.err
        assert "id > 7" in pipeline(fleet)["definition"]
    assert pipeline(fleet)["size"] == "xl"


# ── states ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_pause_resume_restart_and_checkpoint(fleet: Project) -> None:
    fleet.call("apply", "orders.yaml", "--wait")
    assert fleet.call("checkpoint", "orders").out.startswith("orders: checkpoint ")
    before = pipeline(fleet)["state_since"]
    assert fleet.call("restart", "orders", "--wait").out == "orders: running\n"
    assert pipeline(fleet)["state_since"] > before
    assert fleet.call("pause", "orders", "--wait").out == "orders: paused\n"
    refused = fleet.call("checkpoint", "orders")
    assert (refused.code, "the pipeline 'default/orders' is paused, not running" in refused.err) == (1, True)
    (resumed,) = parsed(fleet.call("resume", "orders", "--json"))
    assert resumed["desired"] == "running"
    assert fleet.call("resume", "orders", "--wait").out == "orders: running\n"


def test_one_unknown_pipeline_does_not_keep_the_others_from_being_paused(fleet: Project) -> None:
    fleet.call("apply", "orders.yaml")
    result = fleet.call("pause", "nope", "orders", "--wait")
    assert (result.code, result.out) == (1, "orders: paused\n")
    assert "error: there is no pipeline 'default/nope'" in result.err


def test_delete_keeps_the_state_unless_asked_otherwise(fleet: Project) -> None:
    fleet.call("apply", "orders.yaml", "--wait")
    eventually(lambda: pipeline(fleet)["rows"] == {"out": 2})
    assert fleet.call("delete", "orders", "--yes", "--wait").out == "orders: deleted\n"
    assert fleet.call("describe", "orders").code == 1
    fleet.call("apply", "orders.yaml", "--wait")
    assert pipeline(fleet)["rows"] == {}  # it continues after the files that it has read
    fleet.call("delete", "orders", "--yes", "--wait", "--delete-state")
    fleet.call("apply", "orders.yaml", "--wait")
    eventually(lambda: pipeline(fleet)["rows"] == {"out": 2})


def test_delete_asks_on_a_terminal_and_nowhere_else(fleet: Project, served: Running) -> None:
    fleet.call("apply", "orders.yaml")
    refused = fleet.call("delete", "orders")
    assert (refused.code, "cannot ask for confirmation on stdin; add --yes" in refused.err) == (2, True)
    env = {**clean_environment(), "STREAMLING_SERVER": served.url, "STREAMLING_TOKEN": ADMIN}
    for answer, code in (("n", 1), ("y", 0)):
        with Terminal(
            command_line("delete", "orders", "--delete-state", "--wait"), cwd=fleet.folder, env=env
        ) as terminal:
            terminal.wait_for(re.escape(f"Delete orders with the stored positions on {served.url}?"))
            terminal.type(f"{answer}\n")
            assert terminal.end() == code
        assert fleet.call("describe", "orders").code == 1 - code


# ── views ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_ls_and_describe_show_what_a_pipeline_does(fleet: Project, served: Running) -> None:
    assert "there are no pipelines on " in fleet.call("ls").err
    fleet.call("apply", "orders.yaml", "--wait", "--set", "job_mode=false")
    eventually(lambda: pipeline(fleet)["rows"] == {"out": 2})
    listed = fleet.call("ls").out.splitlines()
    assert listed[0].split() == ["NAMESPACE", "NAME", "STATE", "READY", "ROWS", "LAG", "RESTARTS", "FOR", "REASON"]
    assert re.fullmatch(r"default +orders +running +yes +2 +0 +\d+ s", listed[1])
    assert "there are no pipelines that match" in fleet.call("ls", "--state", "paused").err
    described = fleet.call("describe", "orders").out
    for name, value in (("name", "default/orders"), ("rows", "2 to out"), ("settings", '{"job_mode": false}')):
        assert re.search(f"^{name} +{re.escape(value)}", described, re.MULTILINE)
    assert re.search(r"^CPU +.*s since the start", described, re.MULTILINE)
    assert re.search(r"state +running, ready for \d+ s \(desired: running\)", described)
    assert "  sinks:\n    out: {type: blackhole, from: large}" in described


def test_all_pages_of_a_list_are_read(fleet: Project, served: Running) -> None:
    for name in ("a", "b", "c"):
        served.api.send("POST", "/pipelines", {"name": name, "definition": served.pipeline, "desired": "paused"})
    assert [item["name"] for item in served.api.pages("/pipelines", {"limit": "1"})] == ["a", "b", "c"]


def test_logs_are_printed_and_followed_until_ctrl_c(fleet: Project, served: Running) -> None:
    fleet.call("apply", "orders.yaml", "--wait")
    lines = fleet.call("logs", "orders").out.splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\S+ INFO  running", lines[0])
    records = [json.loads(line) for line in fleet.call("logs", "orders", "--json").out.splitlines()]
    assert set(records[0]) == {"time", "level", "node", "message"}
    assert fleet.call("logs", "orders", "--tail", "0").out == ""
    assert fleet.call("logs", "nope").code == 1
    env = {**clean_environment(), "STREAMLING_SERVER": served.url, "STREAMLING_TOKEN": ADMIN, "PYTHONUNBUFFERED": "1"}
    with (fleet.folder / "followed").open("w") as output:
        command = command_line("logs", "-f", "orders", "--tail", "0")
        follower = subprocess.Popen(command, cwd=fleet.folder, env=env, stdout=output, stderr=output)
    eventually(lambda: _is_following(fleet), 30)
    follower.send_signal(signal.SIGINT)
    assert follower.wait(30) == 0
    assert "error" not in (fleet.folder / "followed").read_text()


def _is_following(fleet: Project) -> bool:
    """Whether new records arrive; each call causes some."""
    fleet.call("restart", "orders", "--wait")
    return "running" in (fleet.folder / "followed").read_text()


# ── errors ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_and_roles(fleet: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.write("token", f"{VIEWER}\n")
    monkeypatch.delenv("STREAMLING_TOKEN")
    assert fleet.call("ls", "--token-file", "token").code == 0
    assert fleet.call("ls", "--token", VIEWER).code == 0
    refused = fleet.call("apply", "orders.yaml", "--token-file", "token")
    assert (refused.code, "'viewer' has the role viewer, this needs operator" in refused.err) == (1, True)
    for arguments in ((), ("--token", "wrong-token-77")):
        refused = fleet.call("ls", *arguments)
        assert (refused.code, "error: the token is missing or wrong" in refused.err) == (1, True)
        assert "STREAMLING_TOKEN" in refused.err
        assert "wrong-token-77" not in refused.err
    missing = fleet.call("ls", "--token-file", "nothing")
    assert (missing.code, "the token file nothing cannot be read: No such file" in missing.err) == (1, True)


def test_what_a_server_without_its_database_answers_is_old(fleet: Project, served: Running) -> None:
    fleet.call("apply", "orders.yaml")

    def grow_old(request: Request) -> Reply:
        sent = send_request(
            served.url + request.path, headers={"Authorization": f"Bearer {ADMIN}"}, seconds=60, max_bytes=10**6
        )
        found = json.loads(sent.body)
        for each in found.get("items", [found]):
            each.update(stale=True, stale_since="2026-05-06T07:08:09Z")
        return Reply(sent.status, json.dumps(found).encode(), {"Content-Type": sent.content_type})

    with endpoint(grow_old) as proxy:
        old, current = f"http://127.0.0.1:{proxy.port}", served.url
        sentence = "since 2026-05-06T07:08:09Z: the server cannot read its database"
        assert f"this may be old, {sentence}" in fleet.call("ls", "--server", old).err
        described = fleet.call("describe", "orders", "--server", old).out
        assert f"old {sentence}" in " ".join(described.split())
    assert "old" not in fleet.call("ls", "--server", current).err
    assert "old since" not in fleet.call("describe", "orders", "--server", current).out


def test_a_server_that_is_not_there_or_not_ours_is_named(fleet: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMLING_SERVER", "http://127.0.0.1:1")
    for command in (["ls"], ["apply", "orders.yaml"], ["logs", "x"], ["secret", "list"], ["pause", "x"]):
        result = fleet.call(*command)
        assert result.code == 1
        assert "error: the server http://127.0.0.1:1 cannot be reached: Connection refused" in result.err
        assert "streamling serve" in result.err
    with endpoint(lambda _: Reply(404, b"<html>", {"Content-Type": "text/html"})) as other:
        for command in (["ls"], ["logs", "x"]):
            result = fleet.call(*command, "--server", f"http://127.0.0.1:{other.port}")
            assert (result.code, "did not respond like a Streamling server: 404" in result.err) == (1, True)
    for wrong in ("localhost:4195", "ftp://x", "http://", "http://x?y=1"):
        result = fleet.call("ls", "--server", wrong)
        assert (result.code, f"'{wrong}' is not an address such as http://127.0.0.1:4195" in result.err) == (2, True)


@pytest.mark.parametrize("text", ["x", "=1", "a.=1", ".a=1"])
def test_a_malformed_setting_is_wrong_usage(fleet: Project, text: str) -> None:
    result = fleet.call("apply", "orders.yaml", "--set", text)
    assert (result.code, f"'{text}' is not SETTING=VALUE" in result.err) == (2, True)


# ── completion ───────────────────────────────────────────────────────────────────────────────────────────────


def completions(folder: Path, server: str, *words: str) -> list[str]:
    answer = subprocess.run(
        command_line(), cwd=folder, capture_output=True, text=True, timeout=60, check=True,
        env={
            **clean_environment(), "STREAMLING_SERVER": server, "STREAMLING_TOKEN": ADMIN,
            "_STREAMLING_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["streamling", *words]), "COMP_CWORD": str(len(words)),
        },
    )  # fmt: skip
    assert answer.stderr == ""
    return answer.stdout.split()


def test_names_of_pipelines_are_completed(fleet: Project, served: Running) -> None:
    fleet.call("apply", "orders.yaml")
    fleet.call("apply", "orders.yaml", "--name", "orders-eu", "-n", "other")
    assert completions(fleet.folder, served.url, "describe", "or") == ["plain,orders"]
    assert completions(fleet.folder, served.url, "pause", "-n", "other", "o") == ["plain,orders-eu"]
    assert completions(fleet.folder, served.url, "logs", "x") == []
    assert completions(fleet.folder, "http://127.0.0.1:1", "delete", "or") == []
    assert completions(fleet.folder, served.url, "apply", "orders.") == ["plain,orders.yaml"]


# ── secrets ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_secrets_of_a_server_reach_its_pipelines_and_nobody_else(
    fleet: Project, served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, f"{served.folder}/orders\n".encode())
    assert fleet.call("secret", "set", "Orders-Folder").err == "stored the secret 'Orders-Folder'\n"
    assert fleet.call("secret", "list").out == "orders_folder\n"
    fleet.write("orders.yaml", PIPELINE.replace("FOLDER", '"${secret:ORDERS_FOLDER}"'))
    applied = fleet.call("apply", "orders.yaml", "--wait")
    assert applied.code == 0, applied.err
    eventually(lambda: pipeline(fleet)["rows"] == {"out": 2})
    assert "${secret:ORDERS_FOLDER}" in pipeline(fleet)["definition"]
    assert (fleet.folder / "secrets.enc").exists() is False
    assert str(served.folder / "orders") not in (served.folder / "secrets.enc").read_text()
    assert fleet.call("secret", "delete", "orders-folder").code == 0
    missing = fleet.call("secret", "delete", "orders-folder")
    assert (missing.code, "there is no secret 'orders-folder'" in missing.err) == (1, True)
    assert fleet.call("secret", "list").err == "there are no secrets\n"
    refused = fleet.call("secret", "list", "--token", VIEWER)
    assert (refused.code, "this needs admin" in refused.err) == (1, True)


def test_a_lost_key_concerns_only_pipelines_that_use_stored_secrets(
    fleet: Project, served: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    give(monkeypatch, f"{served.folder}/orders\n".encode())
    fleet.call("secret", "set", "folder")
    key = served.folder / ".config" / "streamling" / "secrets.key"
    key.rename(key.with_suffix(".lost"))
    fleet.write("secret.yaml", PIPELINE.replace("FOLDER", '"${secret:folder}"'))
    result = fleet.call("apply", "orders.yaml", "secret.yaml", "--wait")
    assert re.search(r"orders +created +running", result.out)
    assert "error: secret.yaml:2:31: the secret 'folder' cannot be read: " in result.err
    assert "secrets.key does not exist, but is needed to read the secret store" in result.err
    key.with_suffix(".lost").rename(key)
    assert fleet.call("apply", "secret.yaml", "--isolation", "process", "--wait").code == 0
    eventually(lambda: pipeline(fleet, "secret")["rows"] == {"out": 2}, 60)
    fleet.call("secret", "delete", "folder")


def test_no_secret_is_in_the_log_of_the_server(served: Running) -> None:
    log = (served.folder / "log.txt").read_text()
    assert ADMIN not in log
    assert VIEWER not in log
