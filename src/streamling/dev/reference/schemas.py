"""The JSON Schemas of pipeline files and of test files, as text."""

from __future__ import annotations

import json

from streamling.dev.pipeline_tests.jsonschema import case_file_schema
from streamling.pipeline.jsonschema import pipeline_schema
from streamling.plugins.registry import Registry


def schema_text(registry: Registry | None) -> str:
    """Return the schema of pipeline files with the types of ``registry``; None: of test files."""
    schema = case_file_schema() if registry is None else pipeline_schema(registry)
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
