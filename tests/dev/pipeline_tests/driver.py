"""Runs a test file in the session of the test run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streamling.dev.pipeline_tests.load import load_file
from streamling.dev.pipeline_tests.run_case import CaseResult, run_cases

PIPELINE = """\
sources:
  orders:
    type: kafka
    topic: orders
    data_format: json
    schema: {id: int64, item: string, price: "decimal(10,2)"}
    primary_key: id
transforms:
  large:
    type: sql
    primary_key: id
    sql: SELECT id, upper(item) AS item, price FROM orders WHERE price > 1
sinks:
  table: {type: postgres, from: large, schema: shop, table: orders}
"""


class Suite:
    """A folder with a pipeline and a test file."""

    def __init__(self, folder: Path, spark: Any) -> None:
        self.folder = folder
        self._spark = spark
        self.write("pipeline.yaml", PIPELINE)

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name

    def run(self, cases: str, pipeline: str | None = None) -> dict[str, CaseResult]:
        """Results by case; ``cases`` is the part of the test file after its first line."""
        if pipeline is not None:
            self.write("pipeline.yaml", pipeline)
        file = load_file(self.write("pipeline.test.yaml", f"pipeline: pipeline.yaml\n{cases}"))
        results = run_cases(list(file.cases()), lambda: self._spark)
        return {result.case.name: result for result in results}


def problems(result: CaseResult) -> list[str]:
    """Everything that is wrong with a case."""
    error = [] if result.error is None else [str(result.error)]
    return error + [line for difference in result.differences for line in (difference.subject, *difference.lines)]
