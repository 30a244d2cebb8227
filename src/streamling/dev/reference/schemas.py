"""The JSON Schemas of pipeline files and of test files, as text."""

from __future__ import annotations

import json
from typing import Any

from streamling.dev.pipeline_tests.model import CaseFile, Expectation, SourceInput
from streamling.pipeline.jsonschema import pipeline_schema
from streamling.plugins.registry import Registry


def schema_text(registry: Registry | None) -> str:
    """Return the schema of pipeline files with the types of ``registry``; None: of test files."""
    schema = case_file_schema() if registry is None else pipeline_schema(registry)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


# ── the test file ────────────────────────────────────────────────────────────────────────────────────────────────

#: models that may also be written as a list of rows
_LISTS = frozenset(f"#/$defs/{model.__name__}" for model in (SourceInput, Expectation))
_ROWS = {"type": "array", "items": {"type": "object"}}


def case_file_schema() -> dict[str, Any]:
    """Draft 2020-12."""
    schema = CaseFile.model_json_schema(by_alias=True)
    schema = _with_lists(schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Streamling test"}


def _with_lists(part: Any) -> Any:
    if isinstance(part, list):
        return [_with_lists(each) for each in part]
    if not isinstance(part, dict):
        return part
    if part.get("$ref") in _LISTS:
        return {"anyOf": [_ROWS, part]}
    return {key: _with_lists(value) for key, value in part.items()}
