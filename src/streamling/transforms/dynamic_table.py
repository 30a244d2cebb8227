"""Dynamic table: a set of values that SQL looks things up in, filled by a query or from outside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.pipeline.options import TransformOptions
from streamling.pipeline.scalars import BadValueError

_BACKENDS = {"inmemory": "InMemory", "postgres": "Postgres"}


def _backend(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = "".join(char for char in value.lower() if char.isalnum())
    if plain not in _BACKENDS:
        raise BadValueError(f"is '{value}', which is no backend", "write Postgres or InMemory")
    return _BACKENDS[plain]


Backend = Annotated[
    Literal["InMemory", "Postgres"],
    BeforeValidator(_backend),
    WithJsonSchema({"type": "string", "examples": ["InMemory", "Postgres"]}),
]


class DynamicTableTransformOptions(TransformOptions):
    """A lookup table for `dynamic_table_check(name, value)`."""

    emits_rows: ClassVar[bool] = False

    backend_type: Backend = Field(description="Where the values are kept: Postgres or InMemory.")
    backend_entity_name: str = Field(min_length=1, description="Name of the table in the backend.")
    sql: str | None = Field(
        default=None, description="Query with one text column that fills the table; without it, others do."
    )
    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="Postgres schema; config `dynamic_table_backend.postgres.dt_schema_name` by default.",
    )
    column: str = Field(default="value", min_length=1, description="Column with the values.")
    time_column: str | None = Field(
        default=None, description="Column with the time of the last change; the cache needs it."
    )
    cache: bool | None = Field(
        default=None,
        description="Keep values in memory; config `dynamic_table_backend.postgres.cache_enabled` if unset.",
    )
    cache_refresh_debounce_ms: int | None = Field(
        default=None, ge=0, description="Least time between two refreshes of the cache; 0: at each batch."
    )

    def upstreams(self) -> Sequence[str]:
        if self.sql is None:
            return ()
        from streamling.sql.dialect import parse
        from streamling.sql.references import node_names

        return node_names(parse(self.sql))
