"""Each SQL text is parsed once on its way from the pipeline file to Spark's plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from sqlglot.parser import Parser

from streamling.pipeline.lint import lint
from tests.transforms.dynamic_table.pipelines import ids, rows, run_pipeline

FILL = "SELECT v FROM s WHERE id < 3"
FIRST = "SELECT *, id / 2 AS half FROM s WHERE NOT dynamic_table_check('seen', v || '!')"
SECOND = "WITH f AS (SELECT * FROM first_rows) SELECT id, half, v = NULL AS never FROM f"
PIPELINE = f"""
sources:
  s: {{type: given, primary_key: id}}
transforms:
  seen: {{type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: "{FILL}"}}
  first_rows: {{type: sql, primary_key: id, sql: "{FIRST}"}}
  second_rows: {{type: sql, primary_key: id, sql: "{SECOND}"}}
sinks:
  out: {{type: memory, from: second_rows}}
"""


@pytest.fixture
def parsed(monkeypatch) -> Counter[str]:
    """How often sqlglot has parsed each text."""
    texts: Counter[str] = Counter()
    parse = Parser.parse

    def counted(self: Parser, raw_tokens: Sequence[Any], sql: str | None = None) -> Any:
        texts[sql or ""] += 1
        return parse(self, raw_tokens, sql)

    monkeypatch.setattr(Parser, "parse", counted)
    return texts


@pytest.mark.spark
def test_from_the_file_to_the_plan_of_every_batch(spark, parsed):
    run = run_pipeline(spark, PIPELINE, {"s": [rows("a", "b", "c"), rows("d", "e", first=4)]})
    assert ids(run) == [1, 2, 3, 4, 5]
    assert [problem.message for problem in lint(run.pipeline)] == [
        "sql transform 'second_rows': a comparison = NULL is never true"
    ]
    assert parsed == {FILL: 1, FIRST: 1, SECOND: 1}
