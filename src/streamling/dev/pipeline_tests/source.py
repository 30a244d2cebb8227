"""The source of a case: delivers the rows of the test file with the columns of the source that it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamling.connectors.file.source import FileSourceOptions
from streamling.connectors.generate.source import GenerateSourceOptions
from streamling.connectors.kafka.decode.rows import METADATA
from streamling.connectors.kafka.source_options import KafkaSourceOptions
from streamling.dev.pipeline_tests.load import LoadedCase
from streamling.dev.pipeline_tests.model import Row, SourceInput
from streamling.dev.pipeline_tests.rows import arrow_rows, declared_schema, inferred_schema, with_kind
from streamling.errors import StreamlingError
from streamling.plugins.sources import END, AnySource, End, Position, Source, SourceBatch, SparkRead
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext


class CaseSource(Source[Any]):
    """Delivers one batch after another, then ends."""

    bounded = True
    #: set by `case_source`
    replaced: ClassVar[type[AnySource[Any]]]
    inputs: ClassVar[Mapping[str, SourceInput]]
    schemas: ClassVar[Mapping[str, Mapping[str, str]]]
    folder: ClassVar[Path]

    def __init__(self, context: NodeContext[Any]) -> None:
        super().__init__(context)
        self._input = self.inputs.get(context.name, SourceInput())
        self._schema: pa.Schema | None = None

    def schema(self) -> pa.Schema:
        if self._schema is None:
            self._schema = self._columns()
        return self._schema

    def inferred_primary_key(self) -> tuple[str, ...]:
        return self._input.primary_key

    def read(self, position: Position) -> SourceBatch | End:
        number = int(position.get(self.context.state_key, 0))
        batches = self._input.all_batches
        if number >= len(batches):
            return END
        rows = arrow_rows(self._valid(batches[number]), self.schema())
        return SourceBatch(self._filtered(rows), {self.context.state_key: number + 1})

    def _valid(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Reject rows whose values do not fit the columns if there is a dead-letter sink, like invalid messages."""
        if self.context.rejected_rows is None:
            return rows
        valid = []
        for row in rows:
            try:
                arrow_rows([row], self.schema())
                valid.append(row)
            except StreamlingError as error:
                self.context.reject(pa.RecordBatch.from_pylist([row]), error.message)
        return valid

    def _columns(self) -> pa.Schema:
        declared = self._input.schema_ or self.schemas.get(self.context.name)
        if declared is not None:
            return declared_schema(declared)
        match self.options:
            case KafkaSourceOptions(schema_=columns, include_metadata=metadata) if columns is not None:
                return pa.schema([*declared_schema(columns), *(METADATA if metadata else ())])
            case FileSourceOptions(path=path) if "://" not in path:
                return with_kind(self._file_columns())
            case FileSourceOptions():
                return self._row_columns()
            case GenerateSourceOptions():
                return self._generated_columns()
        raise StreamlingError.user(
            f"the columns of a {self.options.type} source are not known without the system that it reads",
            remedy=f"declare them in the test file: schemas: {{{self.context.name}: {{id: int64}}}}",
        )

    def _generated_columns(self) -> pa.Schema:
        """Return the columns of a generate source; rows of the test file need not have all of them."""
        columns = self.replaced(self.context).schema()
        return with_kind(pa.schema([each if each.name == OP_COLUMN else each.with_nullable(True) for each in columns]))

    def _file_columns(self) -> pa.Schema:
        """Return the columns of the files, whose path is relative to the working directory or to the pipeline file;
        without files, those of the rows."""
        for path in (self.options.path, str(self.folder / self.options.path)):
            try:
                options = self.options.model_copy(update={"path": path})
                return self.replaced(replace(self.context, options=options)).schema()
            except StreamlingError:
                continue
        return self._row_columns()

    def _row_columns(self) -> pa.Schema:
        rows = [row for batch in self._input.all_batches for row in batch]
        if not rows:
            raise StreamlingError.user(
                "there are neither files nor input rows from which the columns can be inferred",
                remedy=f"declare them in the test file: schemas: {{{self.context.name}: {{id: int64}}}}",
            )
        return inferred_schema(rows)

    def _filtered(self, rows: pa.RecordBatch) -> pa.RecordBatch | SparkRead:
        """Return the rows that the filter of a Kafka source keeps."""
        row_filter = self.options.row_filter if isinstance(self.options, KafkaSourceOptions) else None
        if row_filter is None:
            return rows

        def frame(spark: SparkSession) -> DataFrame:
            from streamling.engine.dataflow.arrow_frames import to_frame

            return row_filter.apply(to_frame(spark, [rows]), rows.schema, unless="false")

        return SparkRead(frame)


def case_source(replaced: type[AnySource[Any]], case: LoadedCase) -> type[CaseSource]:
    """Return the class that replaces ``replaced`` in one case."""
    members = {
        "Options": replaced.Options,
        "replaced": replaced,
        "inputs": case.case.input,
        "schemas": case.file.content.schemas,
        "folder": case.file.pipeline.parent,
    }
    return type("CaseSource", (CaseSource,), members)
