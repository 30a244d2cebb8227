"""What the blocks with pipelines mean: whole pipelines and parts of them, where they run, and the rows they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sqlglot
import yaml
from pydantic import SecretStr

from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import Pipeline
from streamling.pipeline.parse import parse_pipeline
from streamling.pipeline.variables import Variables
from streamling.plugins.registry import Registry
from streamling.sql.library.plugin_functions import declared as declared_functions
from streamling.sql.problems import InvalidSql
from streamling.sql.statement import Statement
from tests.docs.blocks import Block, all_blocks
from tests.paths import ROOT

BLOCKS = all_blocks()
SECTIONS = ("sources", "transforms", "sinks")
#: sinks and transforms that need nothing but this machine
LOCAL = {"print", "memory", "blackhole", "sql", "script", "dynamic_table"}


def is_whole(data: dict[str, Any]) -> bool:
    return "sources" in data and "sinks" in data


def check_pipeline(text: str, registry: Registry) -> Pipeline:
    secrets = {name.lower(): SecretStr("…") for name in re.findall(r"\$\{secret:(\w+)", text)}
    pipeline = parse_pipeline(text, registry=registry, config=AppConfig(), variables=Variables(secrets=secrets))
    for node in pipeline:
        if node.type == "sql":
            check_sql(node.options.sql, registry)
    return pipeline


def check_sql(sql: str, registry: Registry) -> None:
    """What the text says is known to our SQL; which columns there are is not."""
    tables = {table.sql(dialect="") for table in sqlglot.parse_one(sql, read="spark").find_all(sqlglot.exp.Table)}
    compiled = Statement(sql).compile(dict.fromkeys(tables), functions=declared_functions(registry.functions))
    if compiled.problems:
        raise InvalidSql(list(compiled.problems))


def completed(data: dict[str, Any], registry: Registry) -> dict[str, Any]:
    """A pipeline around some of its nodes: sources for what they read, sinks for what nothing reads."""
    nodes = {name: node for section in SECTIONS for name, node in data.get(section, {}).items()}
    read = {name for node in nodes.values() for name in upstreams(node, registry)}
    letters = {node["errors"]["to"] for node in nodes.values() if "errors" in node} - nodes.keys()
    sources = {name: {"type": "kafka", "topic": "t", "primary_key": "id"} for name in sorted(read - nodes.keys())}
    unread = [name for name, node in nodes.items() if name not in read and node["type"] != "dynamic_table"]
    sinks = {
        f"sink_{at}": {"type": "blackhole", "from": name}
        for at, name in enumerate(unread)
        if name not in data.get("sinks", {})
    }
    return {
        "sources": {**sources, **data.get("sources", {})},
        "transforms": data.get("transforms", {}),
        "sinks": {**sinks, **{name: {"type": "blackhole"} for name in letters}, **data.get("sinks", {})},
    }


def upstreams(node: dict[str, Any], registry: Registry) -> Iterator[str]:
    if "from" in node:
        yield node["from"]
    if "sql" in node:
        parsed = sqlglot.parse_one(node["sql"], read="spark")
        yield from (table.sql(dialect="") for table in parsed.find_all(sqlglot.exp.Table))


def runnable() -> list[Block]:
    """The pipelines that need no service."""
    found = []
    for block in BLOCKS:
        data = yaml.safe_load(block.text) if block.language == "yaml" else None
        if data and is_whole(data):
            rest = {node["type"] for section in ("transforms", "sinks") for node in data.get(section, {}).values()}
            if rest <= LOCAL and all(map(is_local, data["sources"].values())):
                found.append(block)
    return found


def is_local(source: dict[str, Any]) -> bool:
    """Whether a source needs nothing but this machine, and ends."""
    return "count" in source if source["type"] == "generate" else "://" not in source.get("path", "://")


def folder_of(block: Block, tmp_path: Path) -> Path:
    """Where a pipeline finds its files."""
    if "same as" in block.comments:
        return (ROOT / block.comments["same as"]).parent
    if "run in" in block.comments:
        return ROOT / block.comments["run in"]
    section = [other for other in BLOCKS if (other.page, other.section) == (block.page, block.section)]
    files = {other.comments["file"]: other.text for other in section if "file" in other.comments} | block.data
    needs_files = any("path" in source for source in yaml.safe_load(block.text)["sources"].values())
    has_files = bool(files.keys() - {"pipeline.yaml"})
    assert has_files or not needs_files, f"{block} has no data: add <!-- data: NAME … --> before it"
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def shown_rows(block: Block) -> dict[str, list[str]]:
    """Rows by sink: of blocks that say so, or of a command that runs the pipeline."""
    after = BLOCKS[BLOCKS.index(block) + 1 :]
    shown: dict[str, list[str]] = {}
    for other in after:
        if other.section != block.section or other.language == "yaml":
            break
        rows = [line for line in other.text.splitlines() if line.startswith("{")]
        if "rows" in other.comments:
            shown[other.comments["rows"]] = rows
        elif other.text.startswith("$ streamling run pipeline.yaml\n{"):
            shown[next(iter(yaml.safe_load(block.text)["sinks"]))] = rows
    return shown
