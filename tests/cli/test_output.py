"""What leaves the process: no secret in any encoding, no control character, only data on standard output."""

from __future__ import annotations

import json
import logging
import re

import pytest

from streamling.observe.telemetry.logging import configure_logging
from streamling.pipeline.config.model import AppConfig
from streamling.pipeline.config.schema import ANY_NAME, is_typed_secret, settings
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.cli.conftest import Project, Result
from tests.fuzz.encodings import ENCODINGS

#: A source that prints all its input, in every way a plugin can.
TALKER = """\
import json, logging, pathlib, sys
import pyarrow as pa
from streamling.errors import StreamlingError
from streamling.plugins import Source, plugin

print("imported")

@plugin("acme.talker")
class Talker(Source):
    def schema(self):
        said = json.loads(pathlib.Path("said.json").read_text())
        for text in said:
            print("printed", text)
            sys.stderr.write(f"written {text}\\n")
            logging.getLogger("streamling.node.x").warning("logged %s", text)
            logging.getLogger("streamling.node.x").debug("whispered %s", text)
        try:
            raise ValueError("below: " + " | ".join(said))
        except ValueError as error:
            raise StreamlingError("raised: " + " | ".join(said), cause=error, remedy="try " + said[0])

    def read(self, position):
        raise NotImplementedError
"""
PIPELINE = """\
sources:
  a: {type: acme.talker, primary_key: id, api_key: "SECRET-option-1", dsn: "postgresql://me:SECRET-dsn-2@h/d"}
transforms:
  asked:
    type: handler
    from: a
    url: "https://me:SECRET-url-3@localhost:1/in?token=SECRET-query-4"
    headers: {Authorization: "Bearer SECRET-bearer-5", X-Odd: "SECRET-head\\"er-6"}
    primary_key: id
sinks:
  out: {type: webhook, from: asked, url: "http://localhost:1/", headers: {Cookie: "SECRET-cookie-7"}}
"""
IN_PIPELINE = (
    *("SECRET-option-1", "SECRET-dsn-2", "SECRET-url-3", "SECRET-query-4"),
    *("SECRET-bearer-5", 'SECRET-head"er-6', "SECRET-cookie-7"),
)
#: fields of the built-in node types that contain secrets; a new one needs a line above
SECRET_FIELDS = {
    (NodeKind.TRANSFORM, "handler", "headers"),
    (NodeKind.TRANSFORM, "handler", "url"),
    (NodeKind.SINK, "webhook", "headers"),
    (NodeKind.SINK, "webhook", "url"),
}
COMMANDS = (
    ["validate", "pipeline.yaml", "--static"],
    ["validate", "pipeline.yaml", "--static", "--json"],
    ["validate", "pipeline.yaml", "--static", "--debug"],
    ["run", "pipeline.yaml", "--validate", "--debug"],
    ["plan", "pipeline.yaml"],
    ["plan", "pipeline.yaml", "--debug"],
)


@pytest.fixture
def talker(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    project.write("talker.py", TALKER)
    project.write("pipeline.yaml", PIPELINE)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "talker.py")
    return project


def test_every_secret_field_of_a_node_is_known_to_these_tests() -> None:
    registry = Registry.builtin()
    found = {
        (kind, id, name)
        for kind in NodeKind
        for id in registry.ids(kind)
        for name, field in registry.get(kind, id).options.model_fields.items()  # type: ignore[union-attr]
        if "Secret" in str(field.annotation) or "redact_url" in str(field.metadata)
    }
    assert found == SECRET_FIELDS


@pytest.mark.slow
def test_no_secret_shows_in_any_output_of_any_command(talker: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = list(IN_PIPELINE)
    for number, setting in enumerate(s for s in settings(AppConfig) if is_typed_secret(s.info)):
        secrets.append(f"S3cret'{number}\"&/ä")
        path = [part.replace(ANY_NAME, "any") for part in setting.path]
        name = "PLUGIN__ACME__KEY" if path[:2] == ["plugin", "secrets"] else "__".join(path).upper()
        monkeypatch.setenv(f"STREAMLING__{name}", secrets[-1])
    assert len(secrets) > 12 + len(IN_PIPELINE), "the settings were found"
    for number, (name, text) in enumerate(
        {
            "AWS_SECRET_ACCESS_KEY": "{}",
            "PGPASSWORD": "{}",
            "STREAMLING__POSTGRES_SINK__HOST": "postgresql://me:{}@db/shop",
            "STREAMLING__STATE_BACKEND__POSTGRES__HOST": "host=db password={} user=me",
            "STREAMLING__KAFKA_SOURCE__SCHEMA_REGISTRY_URL": "http://me:{}@registry",
            "STREAMLING__OPEN_TELEMETRY_METRICS__INGESTION_ENDPOINT": "http://localhost:1/?token={}",
            "STREAMLING__SPARK__CONF": "spark.hadoop.fs.s3a.secret.key={}",
        }.items()
    ):
        secrets.append(f"Outer-secret+{number}")
        monkeypatch.setenv(name, text.format(secrets[-1]))
    said = [encode(secret) for secret in secrets for encode in ENCODINGS.values()]
    talker.write("said.json", json.dumps(said))
    for command in COMMANDS:
        result = talker.call(*command)
        assert result.code != 0
        assert "raised" in result.err + result.out, "the plugin was heard"
        _assert_hidden(result, said, command)
    for command in (["state", "show"], ["doctor"], ["plugins", "list"], ["schema", "--plugins"], ["dev", "status"]):
        _assert_hidden(talker.call(*command), said, command)


def _assert_hidden(result: Result, said: list[str], command: list[str]) -> None:
    shown = result.out + result.err
    assert [text for text in said if text in shown] == [], command
    assert [text for text in said if json.dumps(text)[1:-1] in shown] == [], command


def test_json_of_validate_holds_nothing_that_a_plugin_printed(talker: Project) -> None:
    talker.write("said.json", '["hello"]')
    result = talker.call("run", "pipeline.yaml", "--validate")
    verdict = json.loads(result.out)
    assert verdict["success"] is False
    assert "raised: hello" in verdict["errors"][0]
    assert "printed hello" in result.err


@pytest.mark.spark
def test_standard_output_holds_rows_only_and_an_exit_is_an_error(project: Project) -> None:
    project.write(
        "noisy.py",
        """
import os, sys
from streamling.plugins import Transform, plugin

@plugin("acme.noisy")
class Noisy(Transform):
    def output_schema(self):
        return self.context.input_schema

    def process(self, batch):
        print("to Python's stdout")
        os.write(1, b"to the file itself\\n")
        if os.path.exists("leave"):
            sys.exit(3)
        return batch
""",
    )
    text = (project.folder / "pipeline.yaml").read_text()
    text = text.replace("  screen: {type: print, from: large}", "  screen: {type: print, from: noisy}")
    text = text.replace("sinks:", "  noisy: {type: acme.noisy, from: large, primary_key: id}\nsinks:")
    project.write("pipeline.yaml", text)
    done = project.command("run", "pipeline.yaml", STREAMLING__PLUGIN__PATH="noisy.py")
    assert done.code == 0, done.err
    assert [json.loads(line)["id"] for line in done.out.splitlines()] == [1, 3]
    assert "to Python's stdout" in done.err
    assert "to the file itself" in done.err
    project.write("leave", "")
    (project.folder / "state.db").unlink()
    done = project.command("run", "pipeline.yaml", STREAMLING__PLUGIN__PATH="noisy.py")
    assert (done.code, done.out) == (1, "")
    assert "error: acme.noisy transform 'noisy'" in done.err
    assert "it called sys.exit(3)" in done.err


# ── control characters ───────────────────────────────────────────────────────────────────────────────────────

HOSTILE = "a\x1b[2Jb\r\n12:00:00.000 ERROR forged\x9b31m\u202eslanted\x07\x00\u2028line\ud800"
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2066-\u2069\ud800-\udfff]")


@pytest.mark.parametrize("command", [*COMMANDS, ["plan", "pipeline.yaml", "--json"]], ids=" ".join)
def test_control_characters_from_outside_are_escaped(talker: Project, command: list[str]) -> None:
    talker.write("said.json", json.dumps([HOSTILE]))
    result = talker.call(*command)
    shown = result.out + result.err
    assert "forged" in shown
    assert CONTROLS.findall(shown) == []
    logged = [line for line in shown.splitlines() if "logged" in line]
    assert logged or "--json" in command
    assert all("forged" in line for line in logged), "a log line stays one line"
    block = result.err.partition("error:")[2]  # before it, lines that the plugin itself printed
    raised = [line for line in block.splitlines() if line.startswith("12:00:00.000")]
    assert raised == [], "no line of the error begins with what came from outside"


def test_control_characters_in_the_file_are_escaped_in_the_plan(project: Project) -> None:
    text = (project.folder / "pipeline.yaml").read_text()
    project.write("pipeline.yaml", text.replace("item, price * 2", '\'\\x1b[31m\\u202e\' AS item, price * 2').replace(
        "sql: SELECT", 'sql: "SELECT').replace("price > 1", 'price > 1"'))  # fmt: skip
    result = project.call("plan", "pipeline.yaml")
    assert result.code == 0, result.err
    assert "\\x1b[31m\\u202e" in result.out
    assert CONTROLS.findall(result.out) == []


def test_json_logs_stay_json_with_the_same_text(capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("streamling")
    before = logger.handlers, logger.level, logger.propagate
    try:
        configure_logging("json", "info")
        logging.getLogger("streamling.x").warning("%s", HOSTILE)
    finally:
        logger.handlers, logger.level, logger.propagate = before
    (line,) = capsys.readouterr().err.splitlines()
    assert CONTROLS.findall(line) == []
    assert json.loads(line)["message"] == HOSTILE
