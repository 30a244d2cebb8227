"""Postgres sink: rows are upserted into a table."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from streamling.pipeline.options import Parallel, Rebatched, SinkOptions

Comparison = Literal["=", ">", ">=", "<", "<=", "!=", "<>"]


class PostgresSinkOptions(Parallel, Rebatched, SinkOptions):
    """Rows in a Postgres table, created when it does not exist."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"table"})

    table: str = Field(min_length=1, description="Table to write to.")
    schema_: str = Field(alias="schema", min_length=1, description="Schema of the table.")
    on_conflict: Literal["update", "nothing"] = Field(
        default="update", description="What happens to a row whose key exists."
    )
    update_where: dict[str, Comparison] = Field(
        default={},
        description="Update only where the new value of the column compares so with the stored one.",
    )
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")
