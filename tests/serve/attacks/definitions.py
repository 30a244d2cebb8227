"""Pipelines that connect to one system each."""

from __future__ import annotations

from pathlib import Path

KAFKA_SOURCE = """
sources: {rows: {type: kafka, topic: rows, data_format: json, schema: {id: bigint}, primary_key: id}}
sinks: {out: {type: blackhole, from: rows}}
"""
AVRO_SOURCE = """
sources: {rows: {type: kafka, topic: rows, primary_key: id}}
sinks: {out: {type: blackhole, from: rows}}
"""
CLICKHOUSE_SOURCE = """
sources: {rows: {type: clickhouse, table_name: rows, primary_key: id}}
sinks: {out: {type: blackhole, from: rows}}
"""


def to_sink(folder: Path, sink: str, name: str = "out") -> str:
    """Rows of a file to a sink."""
    return f"""
sources:
  rows: {{type: file, format: csv, path: "{folder}/orders", primary_key: id}}
sinks:
  {name}: {{{sink}, from: rows}}
"""


def to_table(folder: Path) -> str:
    """Rows of a file to a dynamic table."""
    return f"""
sources:
  rows: {{type: file, format: csv, path: "{folder}/orders", primary_key: id}}
transforms:
  seen:
    type: dynamic_table
    backend_type: Postgres
    backend_entity_name: seen
    sql: SELECT cast(id AS string) AS value FROM rows
sinks:
  out: {{type: blackhole, from: rows}}
"""


def to_handler(folder: Path, url: str, more: str = "") -> str:
    return f"""
sources:
  rows: {{type: file, format: csv, path: "{folder}/orders", primary_key: id}}
transforms:
  called: {{type: handler, from: rows, url: "{url}", primary_key: id{more}}}
sinks:
  out: {{type: blackhole, from: called}}
"""


def from_file(path: Path | str, format: str = "csv") -> str:
    return f"""
sources:
  rows: {{type: file, format: {format}, path: "{path}", primary_key: id}}
sinks:
  out: {{type: print, from: rows}}
"""
