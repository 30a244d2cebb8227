"""The examples run from the root of the repository, as their pages say."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.connectors.memory import collected_rows
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.pipeline.document.loader import load_yaml
from tests.harness.pipelines import Bench, eventually, finish

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(path for path in (ROOT / "examples").iterdir() if path.is_dir())
#: makes what the command that follows needs
_PREPARED = ("output", ".streamling/dev.env", "state.db")


def commands(page: Path) -> list[list[str]]:
    """The commands in the blocks of a page, without prompts and outputs."""
    blocks = re.findall(r"^```(?:console|bash|)?\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    found = [
        line.removeprefix("$ ")
        for line in lines
        if re.match(r"(\$ |streamling |python |pip |STREAMLING|export |eval )", line)
    ]
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_commands_on_the_pages_of_examples_use_paths_relative_to_the_root(folder: Path) -> None:
    page = folder / "README.md"
    assert page.exists()
    assert "Run everything from the root of the repository." in page.read_text()
    used = commands(page)
    assert any(command[0] == "streamling" or "streamling" in command for command in used), used
    for command in used:
        assert command[0] != "cd", command
        for word in command:
            path = word.partition("=")[2] if "=" in word else word
            if "/" in path and "://" not in path and path not in _PREPARED and not path.startswith(("$", ">")):
                assert (ROOT / path).exists(), f"{path} of: {' '.join(command)}"


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: path.name)
def test_commands_about_the_state_name_the_pipeline_file(folder: Path) -> None:
    """Without a file it would be the state of ./pipeline.yaml, and there is none in the root of the repository."""
    for command in re.findall(r"`streamling state ([^`]+)`", (folder / "README.md").read_text()):
        assert any((ROOT / word).is_file() for word in command.split()), command


@pytest.mark.parametrize(
    "file",
    sorted(file for file in (ROOT / "examples").glob("**/*.yaml") if ".test." not in file.name),
    ids=lambda path: "/".join(path.parts[-2:]),
)
def test_pipelines_of_examples_use_paths_relative_to_the_root(file: Path) -> None:
    data: Any = load_yaml(file.read_text(), file.name).data
    for node in data.get("sources", {}).values():
        if node["type"] == "file":
            assert (ROOT / node["path"]).exists(), node["path"]


@pytest.mark.spark
@pytest.mark.services
def test_the_page_on_dead_letters_shows_what_happens(spark, kafka, registry) -> None:
    folder = ROOT / "examples" / "dead-letters"
    create_topic(kafka.brokers, topic := "orders_json_of_the_example")
    lines = (folder / "orders.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    # as `dev produce --key id` does
    values = [json.dumps(row, separators=(",", ":")).encode() for row in rows]
    keys = [str(row["id"]).encode() for row in rows]
    produce(kafka.brokers, topic, [Message(value, key=key) for value, key in zip(values, keys, strict=True)])
    text = (folder / "pipeline.yaml").read_text().replace("topic: orders_json", f"topic: {topic}")
    text = re.sub(r"type: postgres\n", "type: memory\n", text)
    text = re.sub(r"^    (schema|table): \w+\n", "", text, flags=re.MULTILINE)
    run = Bench(spark).start(
        text, kafka_source=KafkaSourceSettings(brokers=kafka.brokers, schema_registry_url=registry.url)
    )
    try:
        eventually(lambda: run.failure or run.rows_written() == {"table": 2, "bad_orders": 2}, 60)
    finally:
        run.stop("the test has what it wants")
        finish(run)
    page = (ROOT / "docs" / "dead-letters.md").read_text()
    shown = dict(re.findall(r"^(node|position|error|payload) +\| (.*)$", page, re.MULTILINE))
    last = max(collected_rows(run, "bad_orders").to_pylist(), key=lambda row: row["position"])
    found = {name: last[name].replace(topic, "orders_json") for name in shown}
    assert found == shown
