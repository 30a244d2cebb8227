"""Translates errors of a Postgres server into the user's terms."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from streamling.connectors.postgres.connection import PostgresServer
from streamling.connectors.postgres.connection_errors import connection_error
from streamling.connectors.postgres.table import TableName
from streamling.connectors.postgres.transient_errors import first_line, is_transient
from streamling.errors import BadRow, StreamlingError

_COPY_COLUMN: Final = re.compile(r"COPY \S+, line \d+, column (.+?)(?:: |$)", re.MULTILINE)
_FUNCTION: Final = re.compile(r"PL/pgSQL function (.+?)\(\) line")
_BAD_BYTES: Final = frozenset({"22021", "22P05"})
#: class of errors whose detail concerns a single value; other details may show whole rows
_VALUE: Final = "22"
#: classes of errors that concern a row and not the table: values and constraints
_ROW_ERRORS: Final = (_VALUE, "23")
#: COPY found other columns than expected
_MALFORMED: Final = "22P04"

_REMEDIES: Final = {
    "22003": "widen the column's type, or cast the values in a sql transform",
    "23502": "fill the column in a sql transform, or drop NOT NULL from it",
    "23503": "write the referenced rows first, or drop the constraint",
    "42501": "GRANT this sink's user the required privileges on the schema and the table",
    "42703": "restore the column, or restart the pipeline so that the table is checked again",
    "42P01": "restart the pipeline so that the table is created again",
}


class ErrorTranslator:
    """Translates the errors of one table."""

    def __init__(self, table: TableName, server: PostgresServer) -> None:
        self._table = table
        self._server = server

    def translate(self, error: Exception, rows: pa.Table | None = None, *, connected: bool = True) -> StreamlingError:
        """Translate ``error`` to a `StreamlingError`. ``rows`` are those being written; ``connected`` is whether the
        server has ever responded."""
        import psycopg

        if isinstance(error, StreamlingError):
            return error
        if (connection_failure := connection_error(error, self._server, connected=connected)) is not None:
            return connection_failure
        if is_transient(error):
            return StreamlingError.transient(f"table {self._table} at {self._server}: {first_line(error)}")
        if not isinstance(error, psycopg.Error):
            return StreamlingError(f"table {self._table} at {self._server} cannot be written", cause=error)
        if error.sqlstate in _BAD_BYTES and rows is not None and (found := nul_character(rows)):
            column, row = found
            return BadRow.user(
                f"table {self._table}: column '{column}' of row {row} of the batch contains a NUL character, which "
                "Postgres cannot store",
                remedy=f"remove it in a sql transform: translate({column}, chr(0), '')",
            )
        return self._permanent(error)

    def _permanent(self, error: object) -> StreamlingError:
        import psycopg

        assert isinstance(error, psycopg.Error)
        diagnosis = error.diag
        column = diagnosis.column_name or _copied_column(diagnosis.context)
        where = f"table {self._table} at {self._server}" + (f", column '{column}'" if column else "")
        if function := _FUNCTION.search(diagnosis.context or ""):
            where += f", trigger function {function[1]}"
        text = diagnosis.message_primary or first_line(error)
        if diagnosis.message_detail and (error.sqlstate or "").startswith(_VALUE):
            text = f"{text}: {diagnosis.message_detail}"
        state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        # without the driver's error as cause, because its text may show whole rows
        is_row_error = (error.sqlstate or "").startswith(_ROW_ERRORS) and error.sqlstate != _MALFORMED
        kind = BadRow if is_row_error else StreamlingError
        return kind.user(f"{where}: {text}{state}", remedy=_REMEDIES.get(error.sqlstate or ""))


def nul_character(rows: pa.Table) -> tuple[str, int] | None:
    """Return column and number (from 1) of the first row with a NUL character in a text."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            continue
        # in JSON text a NUL is escaped
        for nul in ("\x00", "\\u0000"):
            row = pc.index(pc.match_substring(column, nul), True).as_py()
            if row >= 0:
                return name, row + 1
    return None


def _copied_column(context: str | None) -> str | None:
    match = _COPY_COLUMN.search(context or "")
    return match[1] if match else None
