"""The JSON schema of test files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.paths import ROOT

from streamling.dev.pipeline_tests.load import find_files
from streamling.dev.reference.schemas import case_file_schema
from streamling.pipeline.document.loader import load_yaml


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = case_file_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", find_files([ROOT / "examples", ROOT / "src"]), ids=lambda path: path.parent.name)
def test_the_tests_of_examples_and_templates_conform(validator: Any, path: Path) -> None:
    assert [error.message for error in validator.iter_errors(load_yaml(path.read_bytes(), path.name).data)] == []


@pytest.mark.parametrize(
    "case", [{"inputs": {}}, {"input": {"s": 1}}, {"expect": {"s": {"order": True}}}, {"http": {"h": [{"status": 99}]}}]
)
def test_what_the_command_rejects_does_not_conform(validator: Any, case: dict[str, Any]) -> None:
    assert validator.is_valid({"pipeline": "p.yaml", "cases": {"one": {}}})
    assert not validator.is_valid({"pipeline": "p.yaml", "cases": {"one": case}})


def test_every_field_is_described() -> None:
    schema = case_file_schema()
    models = {"": schema, **schema["$defs"]}
    fields = [(name, field) for model in models.values() for name, field in model.get("properties", {}).items()]
    assert [name for name, field in fields if "description" not in field] == []
