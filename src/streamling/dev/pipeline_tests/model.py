"""The fields of a test file, as typed models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from streamling.dev.pipeline_tests.clock import parse_instant
from streamling.pipeline.document.scalars import BadValueError, Duration, PrimaryKey
from streamling.pipeline.options import Options
from streamling.pipeline.typenames import TypeName

Row = dict[str, Any]
_ROWS_REMEDY = "write one row per line: - {id: 1, name: Ann}"


def _rows_alone(value: object) -> object:
    """Accept a list of rows, which may be written without a mapping around it."""
    return {"rows": value} if isinstance(value, list) else value


def _check_rows(rows: list[Row]) -> list[Row]:
    for number, row in enumerate(rows, start=1):
        if not row:
            raise BadValueError(f"has no columns in row {number}", _ROWS_REMEDY)
    return rows


def _check_instant(text: str) -> str:
    try:
        parse_instant(text)
    except ValueError:
        raise BadValueError(f"is '{text}', which is not a time", "write it as 2024-07-01T12:00:00Z") from None
    return text


Rows = Annotated[list[Row], AfterValidator(_check_rows)]
Instant = Annotated[str, AfterValidator(_check_instant)]


class SourceInput(Options):
    """The rows that a source delivers."""

    rows: Rows = Field(default=[], description="The rows, in one batch; `_gs_op` is `i` unless a row sets it.")
    batches: list[Rows] = Field(default=[], description="The rows of several batches, instead of `rows`.")
    schema_: dict[str, TypeName] | None = Field(
        default=None,
        alias="schema",
        description="Columns and their types; required if they come from a registry or a server.",
    )
    primary_key: PrimaryKey = Field(
        default=(), description="Key that the source infers; by default the one in the pipeline file."
    )

    @property
    def all_batches(self) -> list[list[Row]]:
        return [*([self.rows] if self.rows else []), *self.batches]


class Expectation(Options):
    """The rows that a node is expected to emit, or a sink to receive."""

    rows: list[Row] = Field(default=[], description="The rows; one without `_gs_op` is expected to be an insert.")
    ordered: bool = Field(default=False, description="Whether the rows are expected in this order.")
    columns: Literal["exact", "subset"] = Field(
        default="exact", description="exact: rows have no other columns; subset: other columns are ignored."
    )


class HttpAnswer(Options):
    """How a stubbed endpoint answers rows."""

    row: Row = Field(default={}, description="Columns of the rows that this answers; without it, all rows.")
    response: Any = Field(default=None, description="The row, or list of rows, that replaces it; null: none.")
    echo: bool = Field(default=False, description="Return the row as it was sent.")
    status: int = Field(default=200, ge=100, le=599, description="Status of the whole request.")
    times: int | None = Field(default=None, ge=1, description="Rows that this answers; then the next entry counts.")


InputRows = Annotated[SourceInput, BeforeValidator(_rows_alone)]
ExpectedRows = Annotated[Expectation, BeforeValidator(_rows_alone)]


class Case(Options):
    """One run of the pipeline."""

    input: dict[str, InputRows] = Field(
        default={}, description="Rows by source; a source that is not listed delivers none."
    )
    expect: dict[str, ExpectedRows | None] = Field(default={}, description="Rows by sink, transform or source.")
    tables: dict[str, list[str]] = Field(default={}, description="Values of dynamic tables at the start, by node.")
    expect_tables: dict[str, list[str]] = Field(
        default={}, description="Values of dynamic tables at the end, by node, in any order."
    )
    http: dict[str, list[HttpAnswer]] = Field(
        default={}, description="Answers of endpoints by handler or webhook; the first entry that matches counts."
    )
    expect_requests: dict[str, list[Any]] = Field(
        default={}, description="JSON bodies sent by a handler or webhook, in any order; other fields are ignored."
    )
    error: str | None = Field(default=None, min_length=1, description="Part of the error that ends the pipeline.")
    now: Instant | None = Field(default=None, description="Time that `now()` returns in SQL.")
    env: dict[str, str] = Field(default={}, description="Environment variables, in addition to those of the file.")
    secrets: dict[str, str] = Field(default={}, description="Secrets for `${secret:NAME}`.")
    timeout: Duration = Field(
        default="60s", validate_default=True, gt=0, description="Time after which the case fails."
    )


class CaseFile(Options):
    """A test file: a pipeline, what all cases share, and the cases."""

    pipeline: str = Field(min_length=1, description="The pipeline file, relative to this file.")
    config: str | None = Field(
        default=None, description="Configuration file, relative to this file; by default config.yaml beside it."
    )
    schemas: dict[str, dict[str, TypeName]] = Field(
        default={}, description="Columns and types of sources, for all cases."
    )
    now: Instant | None = Field(default=None, description="Time that `now()` returns in SQL, for all cases.")
    env: dict[str, str] = Field(default={}, description="Environment variables; no others are visible.")
    secrets: dict[str, str] = Field(default={}, description="Secrets for `${secret:NAME}`.")
    cases: dict[str, Case] = Field(min_length=1, description="The cases by name.")
