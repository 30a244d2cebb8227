"""The hand-written jobs do the same as ours."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from benchmarks.twins import jobs, quickstart
from benchmarks.worker import ByHand, Pipelines
from pyarrow import parquet

from benchmarks import data, user_nodes
from streamling.connectors.file.source import FileSource
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.pipeline.model import NodeKind
from streamling.pipeline.parse import load_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.plugins.registry import Registry
from streamling.types.spark import to_spark_schema
from tests.harness.plugins import load_plugins
from tests.paths import ROOT

_QUICKSTART = ROOT / "examples" / "quickstart"


def _pipeline(file: Path):
    return load_pipeline(file, registry=Registry.builtin(), config=AppConfig())


def test_the_quickstart_by_hand_has_the_sql_of_the_quickstart():
    (transform,) = _pipeline(_QUICKSTART / "pipeline.yaml").transforms
    assert quickstart.SQL.split() == transform.options.sql.split()


@pytest.mark.spark
def test_both_read_the_same_types(spark, tmp_path):
    from pyspark.sql.types import StructType

    folder = data.prepare(tmp_path, 1000)
    for path, format, schema in (
        (_QUICKSTART / "orders", "csv", quickstart.SCHEMA),
        (folder / "csv", "csv", data.SCHEMA),
        (folder / "parquet", "parquet", data.SCHEMA),
    ):
        expected = jobs.read(spark, str(path), format, schema).schema
        assert StructType(to_spark_schema(_inferred(path, format)).fields) == expected


def _inferred(path: Path, format: str) -> pa.Schema:
    options = FileSource.Options(type="file", path=str(path), format=format)
    return FileSource(NodeContext("orders", options, AppConfig(), MemoryState(), NoopMetrics())).schema()


@pytest.mark.spark
@pytest.mark.soak
def test_every_job_runs_both_ways(spark, tmp_path):
    folder = data.prepare(tmp_path, 1000)
    for side in (Pipelines(spark, AppConfig()), ByHand(spark)):
        for format in data.FORMATS:
            side.files_to_nowhere(str(folder / format), format)
        side.files_to_arrow(str(folder / "parquet"), "parquet")
        assert len(side.rate_to_nowhere(1000, 4)) >= 4
        moments = side.trigger_to_arrow(100, 5)
        assert len(moments) >= 5
        assert moments == sorted(moments)


@pytest.mark.spark
def test_a_plugin_and_sql_add_the_same_column(spark, tmp_path):
    registry = load_plugins(Registry.builtin(), user_nodes.PLUGINS)
    orders = parquet.read_table(data.prepare(tmp_path, 1000) / "parquet").combine_chunks().to_batches()[0]
    sql = yaml.safe_load(user_nodes.SQL)["sql"]
    by_sql = spark.sql(sql.replace("orders", "{orders}"), orders=spark.createDataFrame(pa.table(orders))).toArrow()
    by_plugin = plugin_transform(registry, orders.schema).process(orders)
    assert by_plugin.schema.names == by_sql.schema.names
    assert by_plugin.column("total").to_pylist() == by_sql.column("total").to_pylist()


def plugin_transform(registry: Registry, schema: pa.Schema):
    made = registry.get(NodeKind.TRANSFORM, "user.totals").operator
    options = made.Options.model_validate({"type": "user.totals"})
    return made(NodeContext("priced", options, AppConfig(), MemoryState(), NoopMetrics(), input_schema=schema))
