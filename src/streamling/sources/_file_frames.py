"""Files as a Spark DataFrame: explicit paths, explicit schema, nothing inferred."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from streamling.plugins.operators import OP_COLUMN
from streamling.sources import _file_csv, _file_json
from streamling.sources._file_schema import FileSchema
from streamling.sources._file_wide import value_sql
from streamling.spark.sql_text import quoted
from streamling.types.spark import to_spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "csv": _file_csv.SPARK_OPTIONS,
    "json": _file_json.SPARK_OPTIONS,
}
#: characters with a meaning in the path patterns of Hadoop
_PATTERN_CHARACTERS = frozenset("{}[]*?\\")
_MTIME, _PATH, _ROW = "__mtime", "__path", "__row"

NO_OPERATION = f"column '{OP_COLUMN}' has no value in some row"


@dataclass(frozen=True)
class Group:
    """Files with the same columns in the same order."""

    paths: Sequence[str]
    columns: Sequence[str]
    #: for Spark's reader, beside those of the format
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Reading:
    """How the files of a source are read."""

    format: str
    schema: FileSchema
    #: folder that key=value folders count from
    root: str
    #: most files read side by side; None: as many as there are cores
    parallelism: int | None
    #: the order of files when ``parallelism`` is 1: by age, then by path; else by path
    by_age: bool

    def frame(self, spark: SparkSession, groups: Sequence[Group]) -> DataFrame:
        """All rows of the files; file after file when ``parallelism`` is 1."""
        ordered = self.parallelism == 1 and sum(len(group.paths) for group in groups) > 1
        frames = [self._group(spark, group, ordered) for group in groups]
        frame = frames[0]
        for other in frames[1:]:
            frame = frame.union(other)
        if ordered:
            return self._in_order(frame)
        return frame if self.parallelism is None else frame.coalesce(self.parallelism)

    def _group(self, spark: SparkSession, group: Group, ordered: bool) -> DataFrame:
        options = {**_OPTIONS.get(self.format, {}), **group.options}
        reader = spark.read.schema(self._read_schema(group.columns)).options(**options)
        if len(self.schema.partitions):
            reader = reader.option("basePath", _spark_path(self.root))
        frame = reader.format(self.format).load([_spark_path(path) for path in group.paths])
        return frame.select(*self._columns(group.columns), *(_order_columns() if ordered else ()))

    def _in_order(self, frame: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        # Spark puts large files first. The row number keeps the order within a file: the sort is not stable.
        numbered = frame.coalesce(1).withColumn(_ROW, f.monotonically_increasing_id())
        order = (_MTIME, _PATH, _ROW) if self.by_age else (_PATH, _ROW)
        return numbered.sortWithinPartitions(*order).drop(_MTIME, _PATH, _ROW)

    def _read_schema(self, columns: Iterable[str]) -> StructType:
        types = self.schema.types
        fields = [pa.field(name, self._read_type(name, types.get(name, pa.string()))) for name in columns]
        return to_spark_schema(pa.schema([*fields, *self.schema.partitions]))

    def _read_type(self, name: str, kind: pa.DataType) -> pa.DataType:
        if name in self.schema.loose:
            return pa.string()
        return pa.int64() if name in self.schema.nanoseconds else kind

    def _columns(self, present: Iterable[str]) -> list[Column]:
        there, wide = {*present, *self.schema.partitions.names}, self.schema.wide
        return [
            output_column(
                field,
                _read_column(field.name, wide.get(field.name)) if field.name in there else None,
                as_text=field.name in self.schema.loose,
                as_nanoseconds=field.name in self.schema.nanoseconds,
            )
            for field in to_spark_schema(self.schema.columns)
        ]


def _read_column(name: str, wide: pa.DataType | None) -> Column:
    from pyspark.sql import functions as f

    return f.col(quoted(name)) if wide is None else f.expr(value_sql(quoted(name), name, wide))


def output_column(
    field: StructField, read: Column | None, *, as_text: bool = False, as_nanoseconds: bool = False
) -> Column:
    """A column of the source out of what was read for it; None when the file has no such column."""
    from pyspark.sql import functions as f

    column = f.lit(None).cast(field.dataType) if read is None else read
    if read is not None and as_text:
        column = f.nullif(f.trim(read), f.lit("")).cast(field.dataType)
    elif read is not None and as_nanoseconds:
        whole = read - f.pmod(read, f.lit(1000))
        column = f.timestamp_micros(f.call_function("div", whole, f.lit(1000))).cast(field.dataType)
    elif field.name == OP_COLUMN:
        column = f.coalesce(column, f.raise_error(f.lit(NO_OPERATION)))
    return column.alias(field.name, metadata=field.metadata) if field.metadata else column.alias(field.name)


def _order_columns() -> list[Column]:
    from pyspark.sql import functions as f

    return [
        f.col("_metadata.file_modification_time").alias(_MTIME),
        f.col("_metadata.file_path").alias(_PATH),
    ]


def _spark_path(path: str) -> str:
    """An absolute path as Spark takes it literally."""
    return "file:" + "".join(f"\\{c}" if c in _PATTERN_CHARACTERS else c for c in path)
