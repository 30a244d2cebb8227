"""The schema and the parser agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.jsonschema import pipeline_schema
from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.pipeline.plugins import registry_with_plugins

TESTS = Path(__file__).parent.parent
#: mistakes that a schema sees as well as the parser does
SEEN = [
    "aggregate_function",
    "aggregate_without_function",
    "batch_size_negative",
    "clickhouse_compression",
    "duration_word",
    "duration_without_unit",
    "event_time_unit",
    "field_missing",
    "field_misspelt_required",
    "field_number_for_text",
    "field_quoted_number",
    "field_unknown",
    "field_yes_for_boolean",
    "format_unknown",
    "handler_payload_version",
    "handler_url",
    "hybrid_bounded_type",
    "hybrid_nested_field",
    "kafka_sink_compression",
    "mode_unknown",
    "node_not_a_mapping",
    "parallelism_zero",
    "postgres_on_conflict",
    "postgres_update_where",
    "section_missing",
    "section_null",
    "section_without_sinks",
    "telemetry_unknown_field",
    "type_missing",
]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    return pipeline_schema(registry_with_plugins())


def mistakes(schema: dict[str, Any], path: Path) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema)
    return [error.message for error in validator.iter_errors(load_yaml(path.read_text(), path.name).data)]


def test_schema_is_valid(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("transforms", [{}, {"transforms": None}, {"transforms": {}}])
def test_transforms_are_optional(schema: dict[str, Any], transforms: dict[str, Any]) -> None:
    nodes = {
        "sources": {"s": {"type": "kafka", "topic": "t"}},
        "sinks": {"out": {"type": "blackhole", "from": "s"}},
    }
    assert list(jsonschema.Draft202012Validator(schema).iter_errors({**nodes, **transforms})) == []


@pytest.mark.parametrize(
    ("field", "value", "valid"),
    [
        ("batch_size", "${SIZE}", True),
        ("batch_size", "many", False),
        ("data_format", "${FORMAT:-json}", True),
        ("data_format", "xml", False),
        ("batch_flush_interval", "${WAIT}", True),
        ("include_metadata", "${METADATA}", True),
        ("topic", "raw.${TOPIC}", True),
    ],
)
def test_variables_are_allowed_instead_of_values(schema: dict[str, Any], field: str, value: str, valid: bool) -> None:
    source = {"type": "kafka", "topic": "t", field: value}
    data = {"sources": {"s": source}, "sinks": {"out": {"type": "blackhole", "from": "s"}}}
    assert jsonschema.Draft202012Validator(schema).is_valid(data) is valid


@pytest.mark.parametrize("path", sorted((TESTS / "seeds").glob("*.yaml")), ids=lambda path: path.stem)
def test_examples_conform(schema: dict[str, Any], path: Path) -> None:
    assert mistakes(schema, path) == []


@pytest.mark.parametrize("name", SEEN)
def test_bad_pipeline_does_not_conform(schema: dict[str, Any], name: str) -> None:
    assert mistakes(schema, TESTS / "bad_pipelines" / f"{name}.yaml")


def test_every_field_is_described(schema: dict[str, Any]) -> None:
    silent = [
        f"{model}.{name}"
        for model, definition in schema["$defs"].items()
        for name, field in definition.get("properties", {}).items()
        if "description" not in field and "const" not in field
    ]
    assert silent == []


def test_every_type_has_its_branch() -> None:
    registry = Registry.builtin()
    definitions = pipeline_schema(registry)["$defs"]
    for kind in NodeKind:
        branches = [branch["if"]["properties"]["type"]["const"] for branch in definitions[kind]["allOf"]]
        assert tuple(branches) == registry.ids(kind)


def test_header_values_are_marked_as_secret(schema: dict[str, Any]) -> None:
    headers = schema["$defs"]["WebhookSinkOptions"]["properties"]["headers"]
    assert headers["additionalProperties"]["writeOnly"] is True


def test_unknown_types_are_left_to_their_plugins(schema: dict[str, Any]) -> None:
    data = {
        "sources": {"s": {"type": "acme.source", "anything": 1}},
        "transforms": {},
        "sinks": {"o": {"type": "print_sink", "from": "s", "options": {"mode": "batch"}}},
    }
    assert jsonschema.Draft202012Validator(schema).is_valid(data)
    data["sinks"]["o"]["colour"] = "red"
    assert not jsonschema.Draft202012Validator(schema).is_valid(data)
