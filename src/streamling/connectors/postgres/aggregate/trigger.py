"""What keeps an aggregate in Postgres up to date: the aggregate table, and a trigger on the landing table.

Names are quoted by psycopg. Types come from our own tables or were recognized by `arrow_type_of`; values never reach a
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
from streamling.connectors.postgres.statements import names, statement
from streamling.connectors.postgres.table import TableName, check_key, columns_of, create_table
from streamling.errors import StreamlingError
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

#: the landing table's own column: in which epoch of which run a row was last written
EPOCH_COLUMN: Final = "_gs_checkpoint_epoch"

#: what new rows bring to a column
_MADE: Final[Mapping[Function, LiteralString]] = {
    "sum": "coalesce(sum({value}) FILTER (WHERE {op} <> 'd'), 0) - coalesce(sum({value}) FILTER (WHERE {op} = 'd'), 0)",
    # an update counts for nothing: the row was counted when it was inserted
    "count": "count({value}) FILTER (WHERE {op} NOT IN ('u', 'd')) - count({value}) FILTER (WHERE {op} = 'd')",
    # as many values as there are in the sum
    "avg": "count({value}) FILTER (WHERE {op} <> 'd') - count({value}) FILTER (WHERE {op} = 'd')",
    "min": "min({value})",
    "max": "max({value})",
}
#: and what becomes of the column; NULL is neither least nor greatest
_UPDATED: Final[Mapping[Function, LiteralString]] = {
    "min": "{0} = least(target.{0}, excluded.{0})",
    "max": "{0} = greatest(target.{0}, excluded.{0})",
}

#: types that refuse values which are too long for them, unless these are cast
_REFUSING: Final = ("VARCHAR", "CHAR")


class Objects:
    """Tables, function and trigger of one sink."""

    def __init__(self, landing: TableName, aggregate: TableName, aggregates: Aggregates) -> None:
        self._landing = landing
        self._aggregate = aggregate
        self._aggregates = aggregates
        self._name = f"{landing.table}_to_{aggregate.table}"

    def make(self, connection: psycopg.Connection) -> None:
        """Make what is missing, and function and trigger anew; the landing table is there. All instances of a sink do
        so, one after the other."""
        self._prepare_aggregate(connection)
        # in one transaction: no row may be written between the old trigger and the new one
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (str(self._landing),))
            # at once, not statement by statement: an instance that writes already has locked the table for reading and
            # is about to lock it for writing, and each would wait for the other
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
        """The trigger's function. Of rows that are upserted, ``new_table`` has those that were not there."""
        # a column may be called like something that plpgsql knows
        body = "\n#variable_conflict use_column\nBEGIN\n" + self._upsert().decode() + ";\nRETURN NULL;\nEND;\n"
        return self._text(
            "CREATE OR REPLACE FUNCTION {function}() RETURNS TRIGGER LANGUAGE plpgsql AS {body}", body=body
        )

    # ── the aggregate table ──────────────────────────────────────────────────────────────────────────────────

    def _prepare_aggregate(self, connection: psycopg.Connection) -> None:
        made = self._aggregates
        found = columns_of(connection, self._aggregate)
        if not found:
            groups = [_definition(group.name, group.type) for group in made.groups]
            key = groups or [_definition(GLOBAL_GROUP[0], "TEXT")]
            accumulators = [
                _definition(column.name, column.type + ("" if column.is_extreme else " NOT NULL DEFAULT 0"))
                for column in made.accumulators
            ]
            create_table(connection, self._aggregate, [*key, *accumulators], made.key)
        elif missing := [name for name in made.names if name not in found]:
            columns = ", ".join(f"'{name}'" for name in missing)
            raise StreamlingError.user(
                f"table {self._aggregate} has no column {columns}",
                remedy="what was aggregated before is not known: add the column, or choose another `agg_table` and"
                " another `landing_table`",
            )
        check_key(connection, self._aggregate, made.key, "the columns of `group_by`", "choose another `agg_table`")

    # ── what the function does ───────────────────────────────────────────────────────────────────────────────

    def _upsert(self) -> bytes:
        """Groups are taken in order, so that instances which meet in them do not wait for each other in a circle."""
        from psycopg import sql

        made = self._aggregates
        places = ", ".join(str(number + 1) for number in range(len(made.groups)))
        grouping = f"GROUP BY {places} ORDER BY {places}" if made.groups else "HAVING count(*) > 0"
        selected = [_grouped(group) for group in made.groups] or [sql.Literal(GLOBAL_GROUP[1])]
        return self._text(
            "INSERT INTO {aggregate} AS target ({columns})\nSELECT {selected}\nFROM new_table {grouping}\n"
            "ON CONFLICT ({key}) DO UPDATE SET {updated}",
            columns=names(made.names),
            selected=sql.SQL(",\n       ").join([*selected, *(_made(column) for column in made.accumulators)]),
            grouping=sql.SQL(grouping),
            key=names(made.key),
            updated=sql.SQL(", ").join([_updated(column) for column in made.accumulators]),
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


def _grouped(group: GroupByColumn) -> sql.Composable:
    return _value(group.source, group.type, group.converted)


def _value(source: str, type_: str, converted: bool) -> sql.Composable:
    """A column of the new rows in the type it is kept in. Each value is converted on its own: then it does not matter
    which rows come together, and a delete takes away exactly what its insert brought."""
    from psycopg import sql

    column = sql.SQL("new_table.{}").format(sql.Identifier(source))
    if not converted or type_.startswith(_REFUSING):
        return column
    if type_ == "TIMESTAMPTZ":  # the landing table holds UTC, whatever the server's own zone is
        return sql.SQL("(CAST({} AS TIMESTAMP) AT TIME ZONE 'UTC')").format(column)
    return sql.SQL("CAST({} AS {})").format(column, sql.SQL(type_))


def _made(column: Accumulator) -> sql.Composable:
    """What the new rows bring."""
    from psycopg import sql

    value = sql.SQL("*") if column.source is None else _value(column.source, column.type, column.converted)
    return sql.SQL(_MADE[column.fn]).format(value=value, op=sql.SQL("new_table.{}").format(sql.Identifier(OP_COLUMN)))


def _updated(column: Accumulator) -> sql.Composable:
    from psycopg import sql

    return sql.SQL(_UPDATED.get(column.fn, "{0} = target.{0} + excluded.{0}")).format(sql.Identifier(column.name))
