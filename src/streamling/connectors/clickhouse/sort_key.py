"""The sorting key of a table, and cuts through its rows: everything before a cut has been read, everything after it has
not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from streamling.connectors.clickhouse.key_types import InvalidKeyValue, KeyType, KeyValue


@dataclass(frozen=True)
class KeyColumn:
    """One part of a sorting key: a column, or an expression such as ``toDate(ts)``."""

    #: SQL as the server prints it
    sql: str
    type: KeyType

    def is_after(self, value: KeyValue, operator: str = ">") -> str:
        """Return SQL for: the column comes after ``value``. Like all conditions here, it may be NULL instead of
        false."""
        if value is None:
            return "false"
        conditions = []
        if not self.type.is_nan(value):
            conditions.append(f"{self.sql} {operator} {self.type.sql(value)}")
            if self.type.is_float:
                conditions.append(f"isNaN({self.sql})")
        if self.type.is_nullable:
            conditions.append(f"{self.sql} IS NULL")
        return _any(conditions)

    def is_from(self, value: KeyValue) -> str:
        """Return SQL for: the column is ``value`` or comes after it."""
        if value is None or self.type.is_nan(value):
            return _any([self.equals(value), self.is_after(value)])
        return self.is_after(value, ">=")

    def is_before(self, value: KeyValue) -> str:
        """Return SQL for: the column comes before ``value``."""
        if value is None:
            return f"{self.sql} IS NOT NULL"
        return f"NOT isNaN({self.sql})" if self.type.is_nan(value) else f"{self.sql} < {self.type.sql(value)}"

    def equals(self, value: KeyValue) -> str:
        if value is None:
            return f"{self.sql} IS NULL"
        return f"isNaN({self.sql})" if self.type.is_nan(value) else f"{self.sql} = {self.type.sql(value)}"

    def read_sql(self) -> str:
        """Return SQL of the value as text."""
        return self.type.read_sql.format(self.sql)


@dataclass(frozen=True)
class SortKey:
    """The sorting key, as far as its values can be compared: a cut never divides rows whose `columns` are equal."""

    #: all parts as the server prints them
    expressions: tuple[str, ...]
    columns: tuple[KeyColumn, ...]

    @property
    def first(self) -> KeyColumn:
        return self.columns[0]

    @property
    def integers(self) -> range | None:
        """All values of the first column if it is an integer: it can be divided into ranges."""
        return self.first.type.integers

    def position(self, cut: Cut) -> dict[str, Any]:
        """Return the value that is stored for ``cut``, which is not the beginning."""
        return {"sorting_keys": list(self.expressions), "args": list(cut.values)}

    def cut(self, stored: Mapping[str, Any]) -> Cut:
        """Return the cut of a stored value. Raises `InvalidKeyValue` if it is damaged or belongs to another key."""
        keys, values = stored.get("sorting_keys"), stored.get("args")
        if keys != list(self.expressions):
            raise InvalidKeyValue(f"it belongs to the sorting key {_shown(keys)}")
        if not isinstance(values, list) or len(values) not in (1, len(self.columns)):
            raise InvalidKeyValue(f"{values!r} are not the values of a key")
        if self.integers is not None:
            values = [self._integer(values[0]), *values[1:]]
            if len(values) == 1:
                return From(values[0])  # may be one more than the largest value of the type
        cut = After(tuple(values))
        cut.rows_after(self)  # raises for values that do not fit
        return cut

    def _integer(self, value: Any) -> int:
        """Return a stored integer, which the Rust implementation may have stored as text."""
        try:
            if not isinstance(value, bool | float):
                return int(value)
        except (TypeError, ValueError):
            pass
        raise InvalidKeyValue(f"{value!r} is not a value of type {self.first.type.type}")


class Cut:
    """A place between two rows. The base of the three kinds below; also the beginning of the table."""

    values: tuple[KeyValue, ...] = ()

    def rows_after(self, key: SortKey) -> str:
        """Return SQL for: the row comes after the cut."""
        return "true"

    def rows_before(self, key: SortKey) -> str:
        """Return SQL for: the row comes before the cut."""
        return "false"


BEGINNING = Cut()


class From(Cut):
    """In front of the first row whose first key has at least this value."""

    def __init__(self, value: KeyValue) -> None:
        self.value = value
        self.values = (value,)

    def rows_after(self, key: SortKey) -> str:
        if (integers := key.integers) is not None and isinstance(self.value, int):
            if self.value <= integers.start:
                return "true"
            if self.value not in integers:
                return "false"
        return key.first.is_from(self.value)

    def rows_before(self, key: SortKey) -> str:
        if (integers := key.integers) is not None and isinstance(self.value, int):
            if self.value <= integers.start:
                return "false"
            if self.value not in integers:
                return "true"
        return key.first.is_before(self.value)


class After(Cut):
    """After the last row with these values of all columns of the key."""

    def __init__(self, values: tuple[KeyValue, ...]) -> None:
        self.values = values

    def rows_after(self, key: SortKey) -> str:
        condition = "false"
        for column, value in reversed(list(zip(key.columns, self.values, strict=True))):
            condition = _any([column.is_after(value), _all([column.equals(value), condition])])
        return condition

    def rows_before(self, key: SortKey) -> str:
        condition = "true"
        for column, value in reversed(list(zip(key.columns, self.values, strict=True))):
            condition = _any([column.is_before(value), _all([column.equals(value), condition])])
        return condition


def between(start: Cut, end: Cut | None, key: SortKey) -> str:
    """Return SQL for: the row comes after ``start`` and before ``end``."""
    return _all([start.rows_after(key), "true" if end is None else end.rows_before(key)])


def _any(conditions: Sequence[str]) -> str:
    if "true" in conditions:
        return "true"
    needed = [condition for condition in conditions if condition != "false"]
    return "false" if not needed else needed[0] if len(needed) == 1 else f"({' OR '.join(needed)})"


def _all(conditions: Sequence[str]) -> str:
    if "false" in conditions:
        return "false"
    needed = [condition for condition in conditions if condition != "true"]
    return "true" if not needed else needed[0] if len(needed) == 1 else f"({' AND '.join(needed)})"


def _shown(keys: object) -> str:
    return f"({', '.join(map(str, keys))})" if isinstance(keys, list) else repr(keys)
