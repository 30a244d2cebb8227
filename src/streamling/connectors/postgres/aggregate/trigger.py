"""The database objects that maintain an aggregate in Postgres: the aggregate table, and a trigger on the landing table.

psycopg quotes names. Types come from our own tables or were recognized by `arrow_type_of`; values never reach a
statement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, LiteralString

from streamling.connectors.postgres.aggregate.columns import (
    GLOBAL_GROUP,
    Accumulator,
    Aggregates,
    Function,
    GroupByColumn,
)
from streamling.connectors.postgres.statements import quote_names, statement
from streamling.connectors.postgres.table import TableName, check_key, columns_of, create_table
from streamling.errors import StreamlingError
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

#: the landing table's own column: the run and epoch that last wrote a row
EPOCH_COLUMN: Final = "_gs_checkpoint_epoch"

#: what new rows contribute to a column
_CONTRIBUTIONS: Final[Mapping[Function, LiteralString]] = {
    "sum": "coalesce(sum({value}) FILTER (WHERE {op} <> 'd'), 0) - coalesce(sum({value}) FILTER (WHERE {op} = 'd'), 0)",
    # an update does not count: the row was counted when it was inserted
    "count": "count({value}) FILTER (WHERE {op} NOT IN ('u', 'd')) - count({value}) FILTER (WHERE {op} = 'd')",
    # the number of values in the sum
    "avg": "count({value}) FILTER (WHERE {op} <> 'd') - count({value}) FILTER (WHERE {op} = 'd')",
    "min": "min({value})",
    "max": "max({value})",
}
#: how a column is updated; NULL is neither least nor greatest
_UPDATED: Final[Mapping[Function, LiteralString]] = {
    "min": "{0} = least(target.{0}, excluded.{0})",
    "max": "{0} = greatest(target.{0}, excluded.{0})",
}

#: types that reject values which are too long, unless these are cast
_LENGTH_CHECKED: Final = ("VARCHAR", "CHAR")


class AggregateObjects:
    """Tables, function and trigger of one sink."""

    def __init__(self, landing: TableName, aggregate: TableName, aggregates: Aggregates) -> None:
        self._landing = landing
        self._aggregate = aggregate
        self._aggregates = aggregates
        self._name = f"{landing.table}_to_{aggregate.table}"

    def create(self, connection: psycopg.Connection) -> None:
        """Create what is missing, and recreate function and trigger; the landing table exists. All instances of a sink
        do this, one after the other."""
        self._prepare_aggregate(connection)
        # in one transaction, so that no row is written between the old trigger and the new one
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(self._landing),))
            # one lock up front instead of one per statement: an instance that is already writing holds a read lock on
            # the table and is about to take a write lock, so the two would deadlock
            connection.execute(self._text("LOCK TABLE {landing} IN ACCESS EXCLUSIVE MODE"))
            if EPOCH_COLUMN not in columns_of(connection, self._landing):
                connection.execute(self._text("ALTER TABLE {landing} ADD COLUMN {epoch} BIGINT NOT NULL DEFAULT 0"))
            connection.execute(self._text("CREATE INDEX IF NOT EXISTS {index} ON {landing} ({epoch})"))
            connection.execute(self._text("DROP TRIGGER IF EXISTS {trigger} ON {landing}"))
            connection.execute(self.function())
            connection.execute(
                self._text(
                    "CREATE TRIGGER {trigger} AFTER INSERT ON {landing} REFERENCING NEW TABLE AS new_table"
                    " FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
                )
            )

    def function(self) -> bytes:
        """Return the trigger function. When rows are upserted, ``new_table`` holds only the new ones."""
        # a column may have the name of a plpgsql variable
        body = "\n#variable_conflict use_column\nBEGIN\n" + self._upsert().decode() + ";\nRETURN NULL;\nEND;\n"
        return self._text(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS TRIGGER LANGUAGE plpgsql AS {body}", body=body
        )

    # ── the aggregate table ──────────────────────────────────────────────────────────────────────────────────

    def _prepare_aggregate(self, connection: psycopg.Connection) -> None:
        aggregates = self._aggregates
        found = columns_of(connection, self._aggregate)
        if not found:
            groups = [_definition(group.name, group.type) for group in aggregates.groups]
            key = groups or [_definition(GLOBAL_GROUP[0], "TEXT")]
            accumulators = [
                _definition(column.name, column.type + ("" if column.is_extreme else " NOT NULL DEFAULT 0"))
                for column in aggregates.accumulators
            ]
            create_table(connection, self._aggregate, [*key, *accumulators], aggregates.key)
        elif missing := [name for name in aggregates.names if name not in found]:
            columns = ", ".join(f"'{name}'" for name in missing)
            raise StreamlingError.user(
                f"table {self._aggregate} has no column {columns}",
                remedy="its value for the rows aggregated so far is unknown: add the column yourself, or choose "
                "another `agg_table` and another `landing_table`",
            )
        check_key(
            connection, self._aggregate, aggregates.key, "the columns of `group_by`", "choose another `agg_table`"
        )

    # ── the trigger function ───────────────────────────────────────────────────────────────────────────────────

    def _upsert(self) -> bytes:
        """Return the statement that updates groups, in order, so that instances that update the same groups do not
        deadlock."""
        from psycopg import sql

        aggregates = self._aggregates
        positions = ", ".join(str(number + 1) for number in range(len(aggregates.groups)))
        grouping = f"GROUP BY {positions} ORDER BY {positions}" if aggregates.groups else "HAVING count(*) > 0"
        selected = [_group_sql(group) for group in aggregates.groups] or [sql.Literal(GLOBAL_GROUP[1])]
        return self._text(
            "INSERT INTO {aggregate} AS target ({columns})\nSELECT {selected}\nFROM new_table {grouping}\n"
            "ON CONFLICT ({key}) DO UPDATE SET {updated}",
            columns=quote_names(aggregates.names),
            selected=sql.SQL(",\n       ").join(
                [*selected, *(_contribution(column) for column in aggregates.accumulators)]
            ),
            grouping=sql.SQL(grouping),
            key=quote_names(aggregates.key),
            updated=sql.SQL(", ").join([_update_sql(column) for column in aggregates.accumulators]),
        )

    def _text(self, text: str, **parts: object) -> bytes:
        from psycopg import sql

        return statement(
            text,
            landing=self._landing.identifier(),
            aggregate=self._aggregate.identifier(),
            function=sql.Identifier(self._landing.schema, f"{self._name}_fn"),
            trigger=sql.Identifier(f"{self._name}_trigger"),
            index=sql.Identifier(f"idx_{self._landing.table}_checkpoint_epoch"),
            epoch=sql.Identifier(EPOCH_COLUMN),
            **parts,
        )


def _definition(name: str, type_: str) -> sql.Composed:
    from psycopg import sql

    return sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(type_))


def _group_sql(group: GroupByColumn) -> sql.Composable:
    return _value(group.source, group.type, group.converted)


def _value(source: str, type_: str, converted: bool) -> sql.Composable:
    """Return a column of the new rows, converted to the type of the aggregate. Each value is converted on its own: then
    it does not matter which rows are in one batch, and a delete subtracts exactly what its insert added."""
    from psycopg import sql

    column = sql.SQL("new_table.{}").format(sql.Identifier(source))
    if not converted or type_.startswith(_LENGTH_CHECKED):
        return column
    if type_ == "TIMESTAMPTZ":  # the landing table holds UTC, whatever the server's time zone is
        return sql.SQL("(CAST({} AS TIMESTAMP) AT TIME ZONE 'UTC')").format(column)
    return sql.SQL("CAST({} AS {})").format(column, sql.SQL(type_))


def _contribution(column: Accumulator) -> sql.Composable:
    """Return what the new rows contribute."""
    from psycopg import sql

    value = sql.SQL("*") if column.source is None else _value(column.source, column.type, column.converted)
    return sql.SQL(_CONTRIBUTIONS[column.fn]).format(
        value=value, op=sql.SQL("new_table.{}").format(sql.Identifier(OP_COLUMN))
    )


def _update_sql(column: Accumulator) -> sql.Composable:
    from psycopg import sql

    return sql.SQL(_UPDATED.get(column.fn, "{0} = target.{0} + excluded.{0}")).format(sql.Identifier(column.name))
