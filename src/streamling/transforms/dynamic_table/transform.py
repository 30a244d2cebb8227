"""Dynamic table: a set of values for look-ups in SQL, filled by a query or from outside."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BeforeValidator, Field, WithJsonSchema

from streamling.errors import StreamlingError
from streamling.pipeline.document.scalars import BadValueError, ProgramText
from streamling.pipeline.options import SqlOptions, TransformOptions
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.side_outputs import LookupTable
from streamling.spark.sql_text import quoted
from streamling.sql.frames import SparkStatement
from streamling.sql.plan import ROW, Filter, Project, Read
from streamling.sql.problems import InvalidSql, SqlProblem
from streamling.sql.statement import Statement
from streamling.transforms.dynamic_table.backends import BACKENDS, create_store
from streamling.transforms.sql.transform import known_columns
from streamling.types.row_kind import OP_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

    from streamling.plugins.context import NodeContext
    from streamling.transforms.dynamic_table.string_set import StringSet


log = logging.getLogger(__name__)

_FORM = "write SELECT column FROM node WHERE condition"
_CAST = "cast it: CAST(column AS TEXT)"


def _backend(value: object) -> object:
    if not isinstance(value, str):
        return value
    plain = "".join(char for char in value.lower() if char.isalnum())
    names = {name.lower(): name for name in BACKENDS}
    if plain not in names:
        raise BadValueError(f"is '{value}', which is not a valid backend", "write Postgres or InMemory")
    return names[plain]


Backend = Annotated[
    str,
    BeforeValidator(_backend),
    WithJsonSchema({"type": "string", "examples": list(BACKENDS)}),
]


class DynamicTableTransformOptions(SqlOptions, TransformOptions):
    """A look-up table for `dynamic_table_check(name, value)`."""

    emits_rows: ClassVar[bool] = False

    backend_type: Backend = Field(description="Backend of the values: Postgres or InMemory.")
    backend_entity_name: str = Field(min_length=1, description="Name of the table in the backend.")
    sql: ProgramText | None = Field(
        default=None,
        description="Query with one text column that fills the table; without it, the table is filled from outside.",
    )
    schema_: str | None = Field(
        default=None,
        alias="schema",
        description="Postgres schema; defaults to config `dynamic_table_backend.postgres.dt_schema_name`.",
    )
    column: str = Field(default="value", min_length=1, description="Column with the values.")
    time_column: str | None = Field(
        default=None, description="Column with the time of the last change; required by the cache."
    )
    cache: bool | None = Field(
        default=None,
        description="Cache the values in memory; defaults to config `dynamic_table_backend.postgres.cache_enabled`.",
    )
    cache_refresh_debounce_ms: int | None = Field(
        default=None,
        ge=0,
        description="Minimum time between two refreshes of the cache; 0 refreshes it for each batch.",
    )

    wait_for_table: bool = Field(
        default=True,
        description="At the start, hold back rows of other sources that query this table until `sql` has processed "
        "the existing rows.",
    )

    @property
    def is_private_table(self) -> bool:
        """Whether only the pipeline can see the values."""
        return BACKENDS[self.backend_type].is_private

    @cached_property
    def statement(self) -> Statement | None:
        return None if self.sql is None else Statement(self.sql)


class DynamicTableTransform(LookupTable[DynamicTableTransformOptions]):
    """Later rows see the values that rows append immediately; they are stored when their epoch is final."""

    Options: ClassVar[type[DynamicTableTransformOptions]] = DynamicTableTransformOptions

    def __init__(self, context: NodeContext[DynamicTableTransformOptions]) -> None:
        super().__init__(context)
        self._store = create_store(context)
        self._appends = PendingAppends()
        #: all values of the table, for Spark; created on first use
        self._string_set: StringSet | None = None
        self._set_lock = threading.Lock()
        #: state key of an epoch's values until they are in the table
        self._key = f"dynamic_table:{context.name}"

    @classmethod
    def connections(
        cls, context: NodeContext[DynamicTableTransformOptions], spark: Callable[[], SparkSession]
    ) -> Sequence[ConnectionCheck]:
        return BACKENDS[context.options.backend_type].connections(context)

    @property
    def blocks_until_filled(self) -> bool:
        return self.options.wait_for_table

    @cached_property
    def _statement(self) -> SparkStatement:
        assert self.options.statement is not None, "without `sql`, the table is filled from outside"
        return SparkStatement(self.context.name, self.options.statement, keep_row=True)

    # ── filling ─────────────────────────────────────────────────────────────────────────────────────────────

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        if self.options.cache and self.options.time_column is None:
            log.warning(
                "dynamic_table transform '%s': `cache` without `time_column` has no effect: the values are not cached",
                self.context.name,
            )
        _, schema = super().static_check(inputs)
        return check_query(self.options, inputs), schema

    def select(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """Return the value and the number of each row that appends one."""
        frame = self._statement.apply(spark, inputs)
        value = next(name for name in frame.columns if name not in (OP_COLUMN, ROW))
        if not frame.schema[value].dataType.simpleString().startswith(("string", "void")):
            kind = frame.schema[value].dataType.simpleString()
            raise StreamlingError.user(f"its `sql` selects {kind}, expected text", remedy=_CAST)
        return frame.select(*(quoted(name) for name in (value, ROW) if name in frame.columns))

    def translate_error(self, error: Exception) -> StreamlingError | None:
        return None if self.options.sql is None else self._statement.translate_error(error)

    def before_emit(self, rows: pa.Table, after: int) -> None:
        whole = rows.combine_chunks()
        self._appends.begin(first_appearances(whole.column(0), whole.column(ROW)), after)

    def after_emit(self, complete: bool) -> None:
        self._appends.end(complete)

    # ── storing ─────────────────────────────────────────────────────────────────────────────────────────────

    def open(self) -> None:
        """Store the values of an epoch that became final right before a crash: they are in the state, but perhaps not
        in the table."""
        if (left := self.context.state.get(self._key)) is not None:
            self._store.add(left)
            self.context.state.remove(self._key)

    def marker(self, epoch: int) -> Mapping[str, Any]:
        values = self._appends.of_epoch(epoch) if self._store.durable else []
        return {self._key: values} if values else {}

    def finalized(self, epoch: int) -> None:
        values = self._appends.of_epoch(epoch)
        if not values:
            return
        self._store.add(values)
        self._appends.remove_stored(values)
        if self._store.durable:
            # otherwise a value deleted while the pipeline is down would reappear after the next start
            self.context.state.remove(self._key)

    def close(self) -> None:
        self._store.close()

    # ── looking up ──────────────────────────────────────────────────────────────────────────────────────────

    def lookup_expression(self, spark: SparkSession) -> Callable[[SparkColumn], SparkColumn] | None:
        if self._appends.are_arriving():
            return None
        with self._set_lock:  # values that another thread has taken must be in the set before we use it
            # in this order: a value that becomes final meanwhile is then in both rather than in neither
            appended, others = self._appends.take_new(), self._store.take_new()
            if others is None:
                return None
            texts = self._update_set(spark, {*appended, *others} if appended else others)
            return None if texts.full else texts.lookup_expression()

    def _update_set(self, spark: SparkSession, values: Collection[str]) -> StringSet:
        from streamling.transforms.dynamic_table.string_set import StringSet

        if self._string_set is None:
            self._string_set = StringSet(spark)
        self._string_set.add(values)
        return self._string_set

    def contains(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        return check(values, rows, self._first_rows)

    def _first_rows(self, values: Sequence[str]) -> list[int | None]:
        ours = self._appends.pending(values)
        others = self._store.find_existing([value for value, is_ours in zip(values, ours, strict=True) if not is_ours])
        arriving = self._appends.first_rows(values)
        return [
            EARLIER if is_ours or value in others else first
            for value, is_ours, first in zip(values, ours, arriving, strict=True)
        ]


def check_query(options: DynamicTableTransformOptions, inputs: Mapping[str, pa.Schema | None]) -> Sequence[SqlProblem]:
    """Return the problems of the query that fills a table."""
    try:
        if (statement := options.statement) is None:
            return []
        compiled = statement.compile(known_columns(inputs))
    except InvalidSql as error:
        return error.problems
    if compiled.problems:
        return compiled.problems
    query, text, plan = statement.query, statement.text, compiled.plan
    plan = plan.child if isinstance(plan, Project) and not plan.explodes else plan
    plan = plan.child if isinstance(plan, Filter) else plan
    if not isinstance(plan, Read):
        return [text.problem(query, "a dynamic table must be filled by a plain SELECT with a WHERE", _FORM)]
    selected = [column for column in compiled.columns or () if column.name != OP_COLUMN]
    if compiled.columns is not None and len(selected) != 1:
        message = f"a dynamic table has one column of values, but this query selects {len(selected)}"
        return [text.problem(query.expressions[-1], message, _FORM)]
    if selected and not _may_be_text(selected[0].type):
        message = f"the values of a dynamic table are text, not {selected[0].type}"
        return [text.problem(query.expressions[0], message, _CAST)]
    return []


def _may_be_text(type_: pa.DataType | None) -> bool:
    return type_ is None or bool(
        pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_null(type_)
    )


# ── look-ups of whole columns ────────────────────────────────────────────────────────────────────────────────────
# Measured on 1 M rows with 200 000 distinct texts, a table of 100 000: 0.13 s, of which 0.09 s find the distinct
# texts. Only those are looked up, so the cost does not depend on the table's size; Arrow's own `is_in` takes 0.03 s
# here but rebuilds its hash table for every batch, which at 10 M entries would cost more than a second each.

#: the row before the first: all rows see what it appended
EARLIER: Final = -1

#: returns for each distinct value the row that appended it, `EARLIER` if it was in the table before the batch, None if
#: it is not in the table
FirstRows = Callable[[Sequence[str]], Sequence[int | None]]


def check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    """Return whether each of ``values`` (texts, or lists of texts) was in the table when its row arrived. A list is if
    one of its elements is; the result for NULL is NULL."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    if not len(values):
        return pa.array([], pa.bool_())
    if not pa.types.is_list(values.type):
        return _check(values, rows, first_rows)
    parents = pc.list_parent_indices(values)
    found = _check(values.flatten(), rows.take(parents), first_rows).fill_null(False)
    matching = pc.unique(parents.filter(found))
    any_found = pc.scatter(pa.repeat(True, len(matching)), matching, max_index=len(values) - 1).fill_null(False)
    return pc.if_else(values.is_valid(), any_found, pa.scalar(None, pa.bool_()))


def first_appearances(values: pa.Array, rows: pa.Array) -> dict[str, int]:
    """Return the lowest of ``rows`` for each distinct value; NULL is ignored."""
    if pa.types.is_null(values.type):
        return {}
    table = pa.table({"value": values, "row": rows}).drop_null()
    firsts = table.group_by("value", use_threads=False).aggregate([("row", "min")])
    return dict(zip(firsts.column("value").to_pylist(), firsts.column("row_min").to_pylist(), strict=True))


def _check(values: pa.Array, rows: pa.Array, first_rows: FirstRows) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.bool_())
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    firsts = pa.array(first_rows(distinct) if distinct else [], pa.int64())
    found = pc.less(firsts.take(encoded.indices), rows).fill_null(False)
    return pc.if_else(values.is_valid(), found, pa.scalar(None, pa.bool_()))


# ── values that are not yet stored ───────────────────────────────────────────────────────────────────────────────
# Later rows see an appended value immediately, but it is stored only when the epoch of its row is final: after a crash
# before that, the row is replayed, and must not find its own value.


class PendingAppends:
    """Pending values of a table. Thread-safe: flows and checkpoints call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: value → number of the row that appends it first, for the batch that is being emitted
        self._arriving: Mapping[str, int] = {}
        self._after = 0
        self._owner: int | None = None
        #: value → the last epoch before the row that appends it
        self._pending: dict[str, int] = {}
        #: values that became pending since the last `take_new`; None before the first call
        self._new_values: set[str] | None = None

    def begin(self, first_rows: Mapping[str, int], after: int) -> None:
        """Start emitting a batch on this thread; it comes after the marker of epoch ``after``."""
        with self._lock:
            self._arriving, self._after, self._owner = first_rows, after, threading.get_ident()

    def end(self, complete: bool) -> None:
        """End emitting the batch. If that failed, its rows may be replayed and must not find their own values."""
        with self._lock:
            if complete:
                for value in self._arriving:
                    self._pending.setdefault(value, self._after)
                if self._new_values is not None:
                    self._new_values.update(self._arriving)
            self._arriving, self._owner = {}, None

    def take_new(self) -> Collection[str]:
        """Return the pending values of earlier batches at the first call; then those that batches appended since the
        last call."""
        with self._lock:
            taken = set(self._pending) if self._new_values is None else self._new_values
            self._new_values = set()
            return taken

    def are_arriving(self) -> bool:
        """Return whether the batch that this thread emits appends values, so that its rows see different tables."""
        with self._lock:
            return bool(self._arriving) and self._owner == threading.get_ident()

    def pending(self, values: Sequence[str]) -> list[bool]:
        """Return which of ``values`` earlier batches have appended."""
        with self._lock:
            return [value in self._pending for value in values]

    def first_rows(self, values: Sequence[str]) -> list[int | None]:
        """Return the row of the current batch that appends each of ``values``. Only the thread that emits the batch
        knows the order between its rows and look-ups; other threads see the batch when it is complete."""
        with self._lock:
            if self._owner != threading.get_ident():
                return [None] * len(values)
            return [self._arriving.get(value) for value in values]

    def of_epoch(self, epoch: int) -> list[str]:
        """Return the values that rows before the marker of ``epoch`` appended and that are not stored yet."""
        with self._lock:
            return [value for value, after in self._pending.items() if after < epoch]

    def remove_stored(self, values: Collection[str]) -> None:
        """Record that ``values`` are in the table now."""
        with self._lock:
            for value in values:
                self._pending.pop(value, None)
