"""Resolves names in expressions: a column, a field inside it, or an earlier item of the select list."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.plan import Column, Plan
from streamling.sql.source_text import Compilation


@dataclass(frozen=True)
class Relation:
    """The result of a FROM: rows, their columns (None: unknown), and the names that can qualify them."""

    plan: Plan
    columns: tuple[Column, ...] | None
    #: lower-cased dotted names, each as its parts
    names: frozenset[tuple[str, ...]] = frozenset()
    #: further columns of the plan that go with the rows
    unseen: tuple[str, ...] = ()
    #: whether the plan has still more columns, which end at the next projection
    untidy: bool = False

    def renamed(self, alias: str) -> Relation:
        return replace(self, names=frozenset({(alias.lower(),)}))


@dataclass
class NameScope:
    """The names that the expressions of one SELECT can use."""

    compilation: Compilation
    relation: Relation
    #: columns that earlier items of the select list define; Spark lets later items use them
    aliases: list[Column] = field(default_factory=list)

    def resolved(self, path: Sequence[exp.Identifier]) -> exp.Expr | None:
        """Return the column or field of a dotted name, as Spark SQL with its type and real name; None if it is unknown,
        which is a problem if the columns are known."""
        found = self._resolve(path)
        if found is None:
            return None
        column, fields = found
        names, type_ = [column.name], column.type
        for step in fields:
            name, type_ = self._field(type_, step)
            names.append(name)
        resolved = exp.Var(this=".".join(map(quoted, names)))
        resolved.meta["name"] = names[-1]
        resolved.meta.update(_first_place(path), arrow=type_)
        return resolved

    def _resolve(self, path: Sequence[exp.Identifier]) -> tuple[Column, Sequence[exp.Identifier]] | None:
        """Return the column of a dotted name and the struct fields after it; None if it is unknown."""
        columns = self.relation.columns
        if columns is None:
            return None
        for cut in range(len(path) - 1, 0, -1):
            qualifier = tuple(part.name.lower() for part in path[:cut])
            if qualifier in self.relation.names and (column := self._column(path[cut])):
                return column, path[cut + 1 :]
        column = self._column(path[0])
        if column is not None:
            return column, path[1:]
        self._unknown(path, columns)
        return None

    def _column(self, name: exp.Identifier) -> Column | None:
        columns = self.relation.columns or ()
        return find_column(name, columns) or find_column(name, self.aliases)

    def _field(self, type_: pa.DataType | None, name: exp.Identifier) -> tuple[str, pa.DataType | None]:
        """Return the field of a struct with this name, and its type."""
        if type_ is None:
            return name.name, None
        fields = [Column(field.name, field.type) for field in type_] if pa.types.is_struct(type_) else []
        found = find_column(name, fields)
        if found is None:
            listed = ", ".join(field.name for field in fields)
            message = f"there is no field '{name.name}'"
            remedy = f"fields: {listed}" if fields else f"the column is {type_}"
            self.compilation.report(name, message, remedy)
            return name.name, None
        return found.name, found.type

    def _unknown(self, path: Sequence[exp.Identifier], columns: Sequence[Column]) -> None:
        qualified = len(path) > 1 and (path[0].name.lower(),) in self.relation.names
        wanted = path[1] if qualified else path[0]
        names = [column.name for column in columns]
        same = [name for name in names if name.lower() == wanted.name.lower()]
        close = same or difflib.get_close_matches(wanted.name, names, 1)
        hint = f'did you mean "{close[0]}"?' if same else f"did you mean {close[0]}?" if close else None
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        what = "column" if qualified or len(path) == 1 else "column or table"
        message = f"there is no {what} '{wanted.name}'"
        self.compilation.report(wanted, message, hint or f"columns: {listed}")


def find_column(name: exp.Identifier, columns: Sequence[Column]) -> Column | None:
    """Return the column with this name: quoted names match exactly, others ignoring case, the closest spelling
    first."""
    wanted = name.name
    for spelling in (wanted,) if name.quoted else (wanted, wanted.lower()):
        for column in columns:
            if column.name == spelling:
                return column
    if name.quoted:
        return None
    return next((column for column in columns if column.name.lower() == wanted.lower()), None)


def path_of(node: exp.Expr) -> list[exp.Identifier] | None:
    """Return ``a.b.c`` as its parts; None if it does not start with a name."""
    if isinstance(node, exp.Dot):
        start = path_of(node.this)
        last = node.expression
        return [*start, last] if start is not None and isinstance(last, exp.Identifier) else None
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return [part for part in node.parts if isinstance(part, exp.Identifier)]
    return [node] if isinstance(node, exp.Identifier) else None


def _first_place(path: Sequence[exp.Identifier]) -> dict[str, int]:
    start, end = path[0].meta, path[-1].meta
    return {"start": start["start"], "end": end["end"]} if "start" in start and "end" in end else {}
