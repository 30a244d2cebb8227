"""Dynamic tables and the nodes that query them; errors are in `tests/bad_pipelines`."""

from __future__ import annotations

import logging

import pytest

from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry

PIPELINE = """
sources:
  orders: {{type: kafka, topic: orders, primary_key: id}}
transforms:
  seen: {{type: dynamic_table, backend_type: Postgres, backend_entity_name: seen{fill}}}
  kept: {{type: sql, primary_key: id, sql: "SELECT * FROM orders WHERE {condition}"}}
sinks:
  out: {{type: blackhole, from: kept}}
"""


def warnings(caplog: pytest.LogCaptureFixture, *, fill: str = "", condition: str = "true") -> list[str]:
    with caplog.at_level(logging.WARNING):
        parse_pipeline(PIPELINE.format(fill=fill, condition=condition), registry=Registry.builtin())
    return [record.getMessage() for record in caplog.records]


def test_an_unused_table_is_a_warning_with_its_place(caplog):
    (warning,) = warnings(caplog)
    assert "pipeline.yaml:5:3: nothing looks values up in dynamic_table transform 'seen'" in warning
    assert "dynamic_table_check('seen', column), or remove it" in warning


def test_a_table_that_is_filled_may_be_for_others(caplog):
    assert warnings(caplog, fill=", sql: SELECT name FROM orders") == []


def test_the_name_of_a_table_is_case_insensitive(caplog):
    assert warnings(caplog, condition="NOT dynamic_table_check('Seen', name)") == []
