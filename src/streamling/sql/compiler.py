"""Compiles a query over the columns of its upstreams to a plan of filters, projections and unions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql.coercion import align_union_types
from streamling.sql.expressions import Expressions
from streamling.sql.inference import common
from streamling.sql.lookups import split_lookup_condition
from streamling.sql.names import Relation
from streamling.sql.plan import ROW, Column, Filter, Plan, Project, Read, UnionAll
from streamling.sql.problems import SqlProblem
from streamling.sql.projection import find_logical_types, project, with_op
from streamling.sql.references import is_used, match, table_name
from streamling.sql.source_text import Compilation
from streamling.types.row_kind import OP_COLUMN
from streamling.types.wide.layout import contains_wide

#: columns of a node by its declared name; None if they are unknown
Inputs = Mapping[str, Sequence[Column] | None]


@dataclass(frozen=True)
class Compiled:
    """The result: complete if there are no problems and all columns are known."""

    plan: Plan
    columns: tuple[Column, ...] | None
    problems: tuple[SqlProblem, ...]


def compile_query(query: exp.Query, inputs: Inputs, compilation: Compilation, *, keep_row: bool) -> Compiled:
    """Compile a query that has passed the checks."""
    relation = _Compiler(compilation, inputs).query(query, {})
    problems = sorted(dict.fromkeys(compilation.problems), key=lambda problem: (problem.line, problem.column))
    plan = relation.plan
    if relation.unseen and not keep_row:
        plan = Project(plan, tuple(quoted(column.name) for column in relation.columns or ()))
    return Compiled(plan, relation.columns, tuple(problems))


@dataclass(frozen=True)
class _Compiler:
    compilation: Compilation
    inputs: Inputs

    def query(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        """Return the relation of a query; ``ctes`` are the names defined by the enclosing WITH."""
        ctes = self._with(node, ctes)
        if isinstance(node, exp.Union):
            return self._union(_branches(node), ctes)
        if isinstance(node, exp.Subquery):
            inner = self.query(node.this, ctes)
            return inner.renamed(node.alias) if node.alias else inner
        assert isinstance(node, exp.Select)
        return self._select(node, ctes)

    def _with(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Mapping[str, Relation]:
        clause = node.args.get("with_")
        for cte in clause.expressions if clause else ():
            ctes = {**ctes, cte.alias.lower(): self.query(cte.this, ctes)}
            if not is_used(cte, node):
                message = f"the CTE '{cte.alias}' is never used"
                self.compilation.report(cte.args["alias"], message, "remove it from the WITH")
        return ctes

    def _select(self, node: exp.Select, ctes: Mapping[str, Relation]) -> Relation:
        source = self._from(node.args["from_"].this, ctes)
        if where := node.args.get("where"):
            # rows that the filter drops are not looked up
            for condition in split_lookup_condition(where.this):
                source = self._filtered(source, condition)
        return project(node.expressions, source, self.compilation)

    def _filtered(self, source: Relation, node: exp.Expr) -> Relation:
        expressions = Expressions(self.compilation, source)
        condition, type_ = expressions.spark(node)
        if type_ not in (None, pa.bool_(), pa.null()):
            message = f"WHERE needs a condition that is true or false, not {type_}"
            self.compilation.report(node, message)
        source = expressions.with_lookups()
        return replace(source, plan=Filter(source.plan, condition))

    def _from(self, node: exp.Expr, ctes: Mapping[str, Relation]) -> Relation:
        if not isinstance(node, exp.Table):
            return self.query(node, ctes)
        name = table_name(node)
        relation = None if node.args.get("db") else ctes.get(name.lower())
        relation = relation or self._node(node, name)
        if node.alias:
            return relation.renamed(node.alias)
        path = tuple(name.lower().split("."))
        names = {path[start:] for start in range(len(path))} | {(name.lower(),)}
        return replace(relation, names=frozenset(names))

    def _node(self, node: exp.Table, name: str) -> Relation:
        declared = match(name, self.inputs)
        if declared is None:
            self.compilation.report(node, f"there is no node '{name}' to read")
            return Relation(Read(name), None)
        columns = self.inputs[declared]
        if columns is None:
            return Relation(Read(declared), None)
        unseen = tuple(column.name for column in columns if column.name == ROW)
        return Relation(Read(declared), tuple(column for column in columns if column.name != ROW), unseen=unseen)

    def _union(self, branches: list[exp.Expr], ctes: Mapping[str, Relation]) -> Relation:
        relations = [self.query(branch, ctes) for branch in branches]
        if any(relation.columns is None for relation in relations):
            return Relation(UnionAll(tuple(relation.plan for relation in relations)), None)
        relations = [self._typed(relation) for relation in with_op(relations)]
        if len({len(relation.columns or ()) for relation in relations}) == 1:
            relations = align_union_types(relations)
        first = relations[0].columns or ()
        for branch, relation in zip(branches, relations, strict=True):
            found = relation.columns or ()
            if len(found) != len(first):
                self._mismatch(branch, found, first)
        plan = UnionAll(tuple(relation.plan for relation in relations))
        if any(len(relation.columns or ()) != len(first) for relation in relations):
            return Relation(plan, None)
        types = [common([column.type for column in position]) for position in _positions(relations)]
        columns = tuple(Column(c.name, t) for c, t in zip(first, types, strict=True))
        self._same_wide_numbers(branches, relations)
        logical_types = find_logical_types(columns)
        # Spark takes the nullability of a column from the first branch
        unseen = relations[0].unseen
        names = tuple(map(quoted, (*(column.name for column in columns), *unseen)))
        return Relation(
            Project(plan, names, logical_types=logical_types) if logical_types else plan, columns, unseen=unseen
        )

    def _typed(self, relation: Relation) -> Relation:
        """Add the types that only Spark knows: text with numbers stays text, whatever its expression."""
        analyse, columns = self.compilation.analyse, relation.columns or ()
        if analyse is None or all(column.type is not None for column in columns):
            return relation
        return replace(
            relation,
            columns=tuple(
                Column(column.name, analyse(relation.plan, [quoted(column.name)])) if column.type is None else column
                for column in columns
            ),
        )

    def _same_wide_numbers(self, branches: Sequence[exp.Expr], relations: Sequence[Relation]) -> None:
        """Raise if wide numbers do not have the same type in all branches: for Spark they are all bytes."""
        for position in _positions(list(relations)):
            types = [column.type for column in position]
            known = {type_ for type_ in types if type_ != pa.null()}
            if len(known) > 1 and any(contains_wide(type_) for type_ in known):
                message = (
                    f"column '{position[0].name}' is {' and '.join(map(str, types))} in the branches of the UNION ALL"
                )
                self.compilation.report(branches[0], message, "cast it to one type in every branch")

    def _mismatch(self, branch: exp.Expr, found: Sequence[Column], wanted: Sequence[Column]) -> None:
        count, others = (sum(column.name != OP_COLUMN for column in columns) for columns in (found, wanted))
        message = f"this branch of the UNION ALL has {count} columns, the first has {others}"
        self.compilation.report(branch, message, "select the same columns in every branch")


def _branches(node: exp.Expr) -> list[exp.Expr]:
    """Return the branches of a UNION ALL, left to right."""
    branches: list[exp.Expr] = []
    while isinstance(node, exp.Union):
        branches.insert(0, node.expression)
        node = node.this
    return [node, *branches]


def _positions(relations: list[Relation]) -> Iterator[tuple[Column, ...]]:
    return zip(*(relation.columns or () for relation in relations), strict=True)
