"""Errors at run time point at the place in the file that they are about."""

from __future__ import annotations

import pytest

from streamling.errors import InvalidPipeline, StreamlingError
from tests.harness.pipelines import Bench

pytestmark = pytest.mark.spark

HEAD = """sources:
  numbers: {type: numbers, primary_key: id}
"""
TAIL = """
sinks:
  out: {type: memory, from: t}
"""


@pytest.mark.parametrize(
    ("node", "place", "said"),
    [
        (
            "type: sql\n    primary_key: id\n    sql: |\n"
            "      SELECT id,\n        1 / (id - 5) AS x\n      FROM numbers",
            "pipeline.yaml:9:9",
            "sql transform 't': division by zero\n    ",
        ),
        (
            "type: script\n    from: numbers\n    primary_key: id\n    language: js\n    script: |\n"
            "      row => {\n        return nothing(row)\n      }",
            "pipeline.yaml:11:7",
            "script transform 't': row 1 of the batch: the script failed: ReferenceError: nothing is not defined\n"
            "  at <anonymous> (line 2 of the script)\n",
        ),
    ],
    ids=["sql", "script"],
)
def test_what_fails_in_a_text_is_at_its_line_of_the_file(spark, node, place, said):
    with pytest.raises(StreamlingError) as caught:
        Bench(spark).run(f"{HEAD}transforms:\n  t:\n    {node}{TAIL}")
    assert str(caught.value).startswith(f"{place}: {said}")


def _problem(spark, text: str):
    with pytest.raises(InvalidPipeline) as caught:
        Bench(spark).prepare(text)
    (problem,) = caught.value.problems
    return problem


def test_what_only_spark_finds_is_marked_in_the_text(spark):
    node = "type: sql\n    primary_key: id\n    sql: SELECT id, 1e999 AS x FROM numbers"
    problem = _problem(spark, f"{HEAD}transforms:\n  t:\n    {node}{TAIL}")
    assert problem.message == "sql transform 't': the number 1e999 does not fit into double"
    assert problem.excerpt == "  SELECT id, 1e999 AS x FROM numbers\n             ^^^^^"
    assert (problem.line, problem.column) == (7, 21)


def test_an_unknown_table_is_where_it_is_read_from(spark):
    """Not at a column, a comment or a longer name before it."""
    sql = "SELECT id, numbres_total, -- numbres\n        'numbres' AS n\n      FROM numbres"
    node = f"type: sql\n    primary_key: id\n    sql: |\n      {sql}"
    problem = _problem(spark, f"{HEAD}transforms:\n  t:\n    {node}{TAIL}")
    assert (problem.line, problem.column) == (10, 12)


@pytest.mark.parametrize(
    ("path", "format", "said", "remedy"),
    [
        (
            "nowhere",
            "csv",
            "there are no csv files in '{root}/nowhere': the folder does not exist",
            "working directory",
        ),
        ("there", "json", "there are no json files in '{root}/there' (the folder exists)", ".json, .jsonl, .ndjson"),
        ("there", "parquet", "there are no parquet files in '{root}/there' (the folder exists)", "end in .parquet"),
        (
            "there/x.csv",
            "csv",
            "the file '{root}/there/x.csv' does not exist (the folder '{root}/there' exists)",
            ".csv",
        ),
        (
            "no/x.csv",
            "csv",
            "the file '{root}/no/x.csv' does not exist: the folder '{root}/no' does not exist",
            "working",
        ),
        ("there/*.txt", "csv", "no csv file matches '{root}/there/*.txt' (the folder '{root}/there' exists)", ".csv"),
        ("empty", "csv", "there are no csv files in '{root}/empty' with content", "inferred from rows"),
    ],
)
def test_a_path_without_files_is_named_in_full_at_its_line(spark, tmp_path, monkeypatch, path, format, said, remedy):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "a.csv").write_text("id\n1\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.csv").touch()
    text = f"""sources:
  rows:
    type: file
    format: {format}
    path: {path}
    primary_key: id
sinks:
  out: {{type: memory, from: rows}}
"""
    problem = _problem(spark, text)
    assert (problem.line, problem.column) == (5, 11)
    assert problem.message == f"file source 'rows': {said.format(root=tmp_path)}"
    assert remedy in problem.remedy
