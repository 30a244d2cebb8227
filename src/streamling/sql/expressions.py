"""Rewrites one expression for Spark: names become exact columns, DataFusion's meaning becomes explicit.

The Arrow type of a part is stored in its ``meta["arrow"]`` if it is known; it decides where the two engines differ by
type (integer division, subscripts), and the static check reports it for the output.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from streamling.spark.sql_text import quoted
from streamling.sql import decimals, inference, typenames, wide_functions
from streamling.sql.casts import as_text, is_binary, special
from streamling.sql.coercion import coerce_text
from streamling.sql.decimals import divides_natively
from streamling.sql.fragments import UnsupportedSql, finished, rewrite_number, type_of
from streamling.sql.functions import as_call, rewrite_call
from streamling.sql.intervals import interval
from streamling.sql.library.times import part_of_date
from streamling.sql.lookups import lookup_stages, parse_lookup
from streamling.sql.names import NameScope, Relation, path_of
from streamling.sql.operators import rewrite_operator
from streamling.sql.plan import LookupColumns, TableLookup, table_lookups
from streamling.sql.printing import Unprintable, check_emitted, spark_sql
from streamling.sql.references import LOOKUP_FUNCTION
from streamling.sql.source_text import Compilation
from streamling.sql.syntax import check_syntax, plain
from streamling.sql.wide_operators import WideNumbers

#: parts that are keywords, not expressions
_READ_BY_NAME = {
    (exp.Extract, "this"), (exp.Cast, "to"), (exp.TryCast, "to"), (exp.Anonymous, "this"), (exp.Alias, "alias"),
}  # fmt: skip
#: parameters of the enclosing lambdas, in lower case, and their types
Lambdas = Mapping[str, pa.DataType | None]


@dataclass
class Expressions:
    """Rewrites the expressions of one SELECT."""

    compilation: Compilation
    relation: Relation
    #: earlier items of the select list, as Spark SQL
    earlier: list[str] = field(default_factory=list)
    #: lookups in dynamic tables by the expressions so far
    table_lookups: list[TableLookup] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = NameScope(self.compilation, self.relation)

    def spark(self, node: exp.Expr) -> tuple[str, pa.DataType | None]:
        """Return the expression as Spark SQL, and its type."""
        before = len(self.compilation.problems)
        type_: pa.DataType | None = None
        try:
            rewritten = self.rewrite(node.copy(), {})
            type_ = rewritten.meta.get("arrow")
            sql = spark_sql(rewritten)
            unsafe = check_emitted(sql)
        except Unprintable as error:
            unsafe = str(error)
        if len(self.compilation.problems) > before:  # it will not run
            return "NULL", type_
        if unsafe is not None:
            self.compilation.report(node, f"this cannot be translated for Spark: {unsafe}")
            return "NULL", None
        return sql, type_

    def _refused(self, node: exp.Expr, error: UnsupportedSql) -> exp.Expr:
        self.compilation.report(error.place or node, str(error), error.remedy)
        return exp.Null()

    def with_lookups(self) -> Relation:
        """Return the relation with the results of the lookups that the expressions so far refer to."""
        plan = self.relation.plan
        for layer in lookup_stages(self.table_lookups):
            plan = LookupColumns(plan, layer)
        return replace(self.relation, plan=plan, untidy=True) if self.table_lookups else self.relation

    def name(self, node: exp.Expr) -> str | None:
        """Return the real name of a column or field; None for other expressions and unknown names."""
        if not isinstance(node, exp.Column | exp.Dot):
            return None
        name: str | None = self._name(node.copy(), {}).meta.get("name")
        return name

    def rewrite(self, node: exp.Expr, lambdas: Lambdas) -> exp.Expr:
        """Return ``node`` with every part rewritten. Names in ``lambdas`` are parameters of an enclosing lambda."""
        operators: list[exp.Binary] = []  # a OR b OR c … adds one level each: no recursion down the left side
        try:
            while isinstance(node, exp.Binary) and not isinstance(node, exp.Dot):
                check_syntax(node)
                node = plain(node)
                if isinstance(node, exp.Binary):
                    operators.append(node)
                    node = node.this
        except UnsupportedSql as error:
            return self._refused(node, error)
        done = self._rewrite(node, lambdas)
        for operator in reversed(operators):
            operator.set("this", done)
            self._parts(operator, lambdas, done="this")
            done = self._meaning(self._infer_operand_types(operator, lambdas))
        return done

    def _rewrite(self, node: exp.Expr, lambdas: Lambdas) -> exp.Expr:
        if isinstance(node, exp.Column | exp.Dot):
            return self._name(node, lambdas)
        if isinstance(node, exp.Identifier) and node.name.lower() in lambdas:
            node.meta["arrow"] = lambdas[node.name.lower()]
            return node
        try:
            check_syntax(node)
            node = plain(node)
            if isinstance(node, exp.Interval):
                return interval(node)
        except UnsupportedSql as error:
            return self._refused(node, error)
        if isinstance(node, exp.Lambda):
            node.set("this", self.rewrite(node.this, {**lambdas, **parameters(node)}))
            return node
        self._parts(node, lambdas)
        return self._meaning(self._infer_operand_types(node, lambdas))

    def _parts(self, node: exp.Expr, lambdas: Lambdas, done: str | None = None) -> None:
        for key, value in list(node.args.items()):
            if (type(node), key) in _READ_BY_NAME:
                continue
            if isinstance(value, list):
                for number, part in enumerate(value):
                    if isinstance(part, exp.Expr):
                        node.set(key, self.rewrite(part, lambdas), number)
            elif isinstance(value, exp.Expr) and key != done:
                node.set(key, self.rewrite(value, lambdas))

    def _infer_operand_types(self, node: exp.Expr, lambdas: Lambdas) -> exp.Expr:
        """Return ``node``, with the types of its operands from Spark where the compiler does not know them."""
        for part in inference.untyped(node) if self.compilation.analyse else ():
            part.meta["arrow"] = self._analysed(part, lambdas)
        return node

    def _analysed(self, part: exp.Expr, lambdas: Lambdas) -> pa.DataType | None:
        assert self.compilation.analyse is not None
        try:
            sql = spark_sql(part)
        except Unprintable:
            return None  # reported with the whole expression
        for name, type_ in lambdas.items():
            spelling = None if type_ is None else typenames.spark_type_name(type_)
            if spelling is None:
                return None
            sql = f"transform(array(CAST(NULL AS {spelling})), {quoted(name)} -> {sql})[0]"
        if check_emitted(sql) is not None:
            return None
        plan = self.with_lookups().plan
        return self.compilation.analyse(plan, [sql]) or (
            self.compilation.analyse(plan, [*self.earlier, sql]) if self.earlier else None
        )

    def _meaning(self, node: exp.Expr) -> exp.Expr:
        """Return DataFusion's meaning of a construct whose parts are rewritten, expressed for Spark."""
        try:
            return self._spelled(node)
        except UnsupportedSql as error:
            self._refused(node, error)
            return node

    def _spelled(self, node: exp.Expr) -> exp.Expr:
        numbers = WideNumbers(self.compilation.text)
        wide = wide_functions.rewrite_call(node, numbers) if isinstance(node, exp.Anonymous) else numbers.rewrite(node)
        if wide is not None:
            return wide
        if isinstance(node, exp.Div) and not divides_natively(node):
            return numbers.decimal_quotient(node)
        if isinstance(node, exp.Anonymous):
            if node.name.lower() == LOOKUP_FUNCTION:
                return self._look_up(node)
            return rewrite_call(node, self.compilation.functions)
        if written := as_call(node):
            return rewrite_call(written, self.compilation.functions)
        try:
            if isinstance(node, exp.Extract):
                return part_of_date(node.name, node.expression)
            if (operator := rewrite_operator(node)) is not None:
                return operator
            coerce_text(node)
        except UnsupportedSql as error:
            return self._refused(node, error)
        if isinstance(node, exp.Cast):
            return typenames.rewrite_cast(node)
        if isinstance(node, exp.DPipe):
            sides = (node.this, node.expression)
            if not all(is_binary(type_of(side)) for side in sides):
                for side in sides:
                    side.replace(as_text(side) if special(type_of(side)) else side)
        if isinstance(node, exp.Literal):
            return rewrite_number(node)
        return decimals.exact_comparison(inference.annotate(node))

    def _look_up(self, node: exp.Anonymous) -> exp.Expr:
        """Return the column that will hold the result; identical lookups share one."""
        number = len(self.table_lookups) + len(list(table_lookups(self.relation.plan)))
        lookup = parse_lookup(node, number)
        same = [each for each in self.table_lookups if (each.table, each.value) == (lookup.table, lookup.value)]
        self.table_lookups += [] if same else [lookup]
        return finished(quoted((same or [lookup])[0].result_column), pa.bool_(), node.meta)

    def _name(self, node: exp.Expr, lambdas: Lambdas) -> exp.Expr:
        path = path_of(node)
        if path is None:  # a field of something other than a name: f(x).y
            node.set("this", self.rewrite(node.this, lambdas))
            return node
        if path[0].name.lower() in lambdas:
            if len(path) == 1:
                node.meta["arrow"] = lambdas[path[0].name.lower()]
            return node
        return self.names.resolved(path) or node


#: functions that call their lambdas with (key, value) of the map
_MAPS = ("map_filter", "transform_keys", "transform_values")


def parameters(node: exp.Lambda) -> dict[str, pa.DataType | None]:
    """Return the parameters of a lambda, in lower case, with their types if they follow from the other arguments of its
    call, which are rewritten."""
    names = [parameter.name.lower() for parameter in node.expressions]
    call = node.parent
    types = _types(call, node) if isinstance(call, exp.Anonymous) else []
    return {name: types[place] if place < len(types) else None for place, name in enumerate(names)}


def _types(call: exp.Anonymous, node: exp.Lambda) -> list[pa.DataType | None]:
    name, args = call.name.lower(), call.expressions
    known = [arg.meta.get("arrow") for arg in args]
    if name in _MAPS:
        return [known[0].key_type, known[0].item_type] if known[0] is not None and pa.types.is_map(known[0]) else []
    if name in ("aggregate", "reduce") and len(args) > 1:
        return [known[1], _element(known[0])]
    if name == "zip_with" and len(args) > 1:
        return [_element(known[0]), _element(known[1])]
    if name == "array_sort":
        return [_element(known[0])] * 2
    return [_element(known[0]), pa.int32()] if args and args[0] is not node else []


def _element(type_: pa.DataType | None) -> pa.DataType | None:
    return type_.value_type if type_ is not None and pa.types.is_list(type_) else None
