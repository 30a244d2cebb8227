"""Reads files with a known schema as Spark DataFrames, without inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.connectors.file.checks import checked_sql
from streamling.connectors.file.decimals import value_sql
from streamling.connectors.file.schema import FileSchema
from streamling.spark.sql_text import quoted
from streamling.types.row_kind import OP_COLUMN
from streamling.types.spark import to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

#: special characters in Hadoop's path patterns
_PATTERN_CHARACTERS = frozenset("{}[]*?\\")
_MTIME, _PATH, _ROW = "__mtime", "__path", "__row"

NO_OPERATION = f"column '{OP_COLUMN}' has no value in a row"


@dataclass(frozen=True)
class FileGroup:
    """Files whose columns are stored in the same way."""

    paths: Sequence[str]
    #: columns to read; the others are null
    columns: Sequence[str]
    #: timestamps stored as nanoseconds
    nanoseconds: frozenset[str] = frozenset()
    #: options of Spark's reader
    options: Mapping[str, str] = field(default_factory=dict)


def converted_frame(
    spark: SparkSession, schema: FileSchema, paths: Sequence[str], parallelism: int | None
) -> DataFrame:
    """Return all rows of Parquet files that Arrow has written with the columns of the source."""
    columns = to_spark_schema(schema.columns)
    frame = spark.read.schema(columns).parquet(*map(_spark_path, paths))
    frame = frame.select(*(output_column(field, quoted_column(field.name)) for field in columns))
    return frame if parallelism is None else frame.coalesce(parallelism)


@dataclass(frozen=True)
class SparkFileReader:
    """How Spark itself reads the Parquet or Avro files of a source."""

    format: str
    schema: FileSchema
    #: folder above the key=value folders
    root: str
    #: maximum number of files read concurrently; None: as many as there are cores
    parallelism: int | None
    #: order of files if ``parallelism`` is 1: by age, then by path; else by path
    by_age: bool
    #: whether files may disappear while they are read
    ignore_missing: bool = False

    def frame(self, spark: SparkSession, groups: Sequence[FileGroup]) -> DataFrame:
        """Return all rows of the files; file after file if ``parallelism`` is 1."""
        ordered = self.parallelism == 1 and sum(len(group.paths) for group in groups) > 1
        frames = [self._group(spark, group, ordered) for group in groups]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.union(other)
        if ordered:
            return self._in_order(frame)
        return frame if self.parallelism is None else frame.coalesce(self.parallelism)

    def _group(self, spark: SparkSession, group: FileGroup, ordered: bool) -> DataFrame:
        reader = spark.read.schema(self._read_schema(group)).options(**group.options)
        if self.ignore_missing:
            reader = reader.option("ignoreMissingFiles", "true")
        if len(self.schema.partitions):
            reader = reader.option("basePath", _spark_path(self.root))
        frame = reader.format(self.format).load([_spark_path(path) for path in group.paths])
        return frame.select(*self._columns(group), *(_order_columns() if ordered else ()))

    def _in_order(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        # Spark puts large files first. The row number preserves the order within a file, because the sort is not
        # stable.
        numbered = frame.coalesce(1).withColumn(_ROW, f.monotonically_increasing_id())
        order = (_MTIME, _PATH, _ROW) if self.by_age else (_PATH, _ROW)
        return numbered.sortWithinPartitions(*order).drop(_MTIME, _PATH, _ROW)

    def _read_schema(self, group: FileGroup) -> StructType:
        types = self.schema.types
        fields = [pa.field(name, pa.int64() if name in group.nanoseconds else types[name]) for name in group.columns]
        return to_spark_schema(pa.schema([*fields, *self.schema.partitions]))

    def _columns(self, group: FileGroup) -> list[Column]:
        return [output_column(field, self._read(field.name, group)) for field in to_spark_schema(self.schema.columns)]

    def _read(self, name: str, group: FileGroup) -> Column | None:
        """Return what to read for a column of the source, or None if the files do not have it."""
        if name in self.schema.partitions.names:
            return quoted_column(name)
        if name not in group.columns:
            return None
        if name in group.nanoseconds:
            return _from_nanoseconds(name, self.schema.types[name])
        return _value(name, self.schema.types[name], is_wide=name in self.schema.wide)


def _value(name: str, type_: pa.DataType, *, is_wide: bool) -> Column:
    from pyspark.sql import functions as f

    if is_wide:
        return f.expr(value_sql(quoted(name), name, type_))
    checked = checked_sql(quoted(name), name, type_)
    return quoted_column(name) if checked is None else f.expr(checked)


def _from_nanoseconds(name: str, type_: pa.DataType) -> Column:
    from pyspark.sql import functions as f

    read = quoted_column(name)
    whole = read - f.pmod(read, f.lit(1000))
    micros = f.timestamp_micros(f.call_function("div", whole, f.lit(1000)))
    return micros if type_.tz else micros.cast("timestamp_ntz")


def output_column(field: StructField, read: Column | None) -> Column:
    """Return a column of the source from what was read for it; None if the file has no such column."""
    from pyspark.sql import functions as f

    column = f.lit(None).cast(field.dataType) if read is None else read
    if field.name == OP_COLUMN:
        column = f.coalesce(column, f.raise_error(f.lit(NO_OPERATION)))
    return column.alias(field.name, metadata=field.metadata) if field.metadata else column.alias(field.name)


def _order_columns() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.col("_metadata.file_modification_time").alias(_MTIME),
        f.col("_metadata.file_path").alias(_PATH),
    ]


def _spark_path(path: str) -> str:
    """Return an absolute path, escaped for Spark."""
    return "file:" + "".join(f"\\{c}" if c in _PATTERN_CHARACTERS else c for c in path)


def quoted_column(name: str) -> Column:
    from pyspark.sql import functions as f

    return f.col(quoted(name))
