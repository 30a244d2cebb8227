from __future__ import annotations

import pyarrow as pa

from streamling.connectors.clickhouse.key_deletes import KeyDeletes
from streamling.connectors.clickhouse.server import TableName
from streamling.connectors.clickhouse.table import TableColumn
from streamling.connectors.clickhouse.type_text import parse_type

TABLE = TableName("d", "t`x")


def deletes(*columns: tuple[str, str]) -> KeyDeletes:
    return KeyDeletes(TABLE, [TableColumn(name, parse_type(type_), "") for name, type_ in columns])


def test_a_statement_names_up_to_a_thousand_keys() -> None:
    statements = list(deletes(("id", "Int64")).statements([pa.array(range(2500))]))
    assert [statement.count("), (") + 1 for statement in statements] == [1000, 1000, 500]


def test_names_and_values_are_quoted() -> None:
    keys = [pa.array([1, -2]), pa.array(["it's \\", "x"])]
    assert list(deletes(("a", "Int64"), ("b`c", "String")).statements(keys)) == [
        "ALTER TABLE `d`.`t\\`x` DELETE WHERE (`a`, `b\\`c`) IN ((1, 'it\\'s \\\\'), (-2, 'x'))"
    ]
