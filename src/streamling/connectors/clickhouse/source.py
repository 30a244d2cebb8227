"""ClickHouse source: reads the rows of a table once."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.document.scalars import Columns, ProgramText
from streamling.pipeline.options import Options, SourceOptions


def _start_at(value: object) -> object:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


StartAt = Annotated[str, BeforeValidator(_start_at), WithJsonSchema({"type": ["string", "number"]})]


class TableRead(Options):
    """Fields that say what to read from a table, shared by the ClickHouse and hybrid sources."""

    table_name: str = Field(min_length=1, description="Table to read.")
    filter: ProgramText | None = Field(default=None, description="Condition in ClickHouse SQL, added to the query.")
    start_at: StartAt | None = Field(
        default=None,
        description="First value of the first sorting key to read; a stored position is then ignored.",
    )
    columns: Columns | None = Field(default=None, description="Columns to read, comma-separated; all by default.")


class ClickHouseSourceOptions(TableRead, SourceOptions):
    """Reads all rows of a ClickHouse table in the order of its first sorting key, then ends."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})
    infers_primary_key: ClassVar[bool] = True
