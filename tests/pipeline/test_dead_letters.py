"""Which sink takes the rejected rows of a node; errors are in `tests/bad_pipelines/errors_*`."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.jsonschema import pipeline_schema
from streamling.pipeline.parse import load_pipeline, parse_pipeline
from streamling.plugins.registry import Registry

EXAMPLE = Path(__file__).parents[2] / "examples" / "dead-letters" / "pipeline.yaml"
SHARED = """
sources:
  a: {type: kafka, topic: a, primary_key: id, errors: {to: Bad}}
  b: {type: kafka, topic: b, primary_key: id, errors: {to: bad}}
transforms: {}
sinks:
  out_a: {type: postgres, from: a, schema: s, table: t, errors: {to: bad}}
  out_b: {type: print, from: b}
  bad: {type: print}
"""


def test_the_example_is_a_pipeline_and_conforms_to_the_schema() -> None:
    pipeline = load_pipeline(EXAMPLE, registry=Registry.builtin())
    assert [node.name for node in pipeline.rejecting_nodes("bad_orders")] == ["orders"]
    assert pipeline["bad_orders"].primary_key == ("id",)
    data = load_yaml(EXAMPLE.read_text(), EXAMPLE.name).data
    jsonschema.Draft202012Validator(pipeline_schema(Registry.builtin())).validate(data)


def test_one_sink_takes_the_bad_rows_of_several_nodes_whatever_the_case_of_its_name() -> None:
    pipeline = parse_pipeline(SHARED, registry=Registry.builtin())
    assert [node.name for node in pipeline.rejecting_nodes("bad")] == ["a", "b", "out_a"]
    assert pipeline["bad"].upstreams == ()
