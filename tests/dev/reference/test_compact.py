"""The node types on the page for coding assistants are those of the models."""

from __future__ import annotations

import re

from tests.paths import ROOT

from streamling.dev.reference.compact import node_types
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry

PAGE = ROOT / "docs" / "llms.md"


def test_every_node_type_is_listed_with_its_fields() -> None:
    text, registry = PAGE.read_text(), Registry.builtin()
    for kind in NodeKind:
        for id in registry.ids(kind):
            found = registry.get(kind, id)
            assert found is not None
            listed = re.search(rf"^{kind.value} {id}\n((?:  .*\n)+)", text, re.MULTILINE)
            assert listed, id
            if listed:
                fields = found.options.model_json_schema()["properties"]
                current = [name for name, field in fields.items() if name != "type" and not field.get("deprecated")]
                assert [name for name in current if name not in listed[1]] == []


def test_a_field_is_one_line_with_type_default_and_meaning() -> None:
    lines = node_types(Registry.builtin()).splitlines()
    assert any(line.startswith("  topic*: text -- ") for line in lines)
    assert any(line.startswith("  compression: none | gzip | lz4 = lz4 -- ") for line in lines)
    assert any(
        line.startswith("  mode: {type*: bounded} | {type: continuous, poll_interval: text} -- ") for line in lines
    )


def test_fields_that_many_types_share_are_only_named() -> None:
    lines = node_types(Registry.builtin()).splitlines()
    script = lines[lines.index("transform script") :]
    shared = next(line for line in script if line.startswith("  shared: "))
    assert shared == "  shared: from*, primary_key*, batch_size, batch_flush_interval, parallelism, errors, telemetry"
