"""Side outputs: operators that see the rows of a node before its consumers do, and pass them on unchanged.

**Life.** ``open`` → for every batch of the node ``select`` (a plan), ``before_emit``, then ``after_emit`` → ``marker``
and ``finalized`` for every epoch → ``close``. One batch at a time: flows that meet in the node take turns.

**Delivery.** What a side output learns from a row must not be published before the row's epoch is complete. Otherwise a
replay after a crash finds what the row itself left behind. So keep it in memory, return it from ``marker``, so that it
is stored in one transaction with the positions of the epoch, and publish it when the epoch is ``finalized``; in
``open``, publish what ``context.state`` still has under the keys that ``marker`` returned.

**Threads.** The thread that passes the rows on calls ``before_emit`` and ``after_emit``; another one calls
``finalized`` at any time.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from streamling.pipeline.model import NodeKind
from streamling.plugins.execution import ExecutionMode
from streamling.plugins.operators import EmptyInputs, Operator, OptionsT

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from streamling.sql.problems import SqlProblem


class SideOutput(Operator[OptionsT]):
    """Sees rows before they are emitted."""

    node_kind: ClassVar[NodeKind | None] = NodeKind.TRANSFORM
    execution: ClassVar[ExecutionMode] = ExecutionMode.SIDE
    scales_with_parallelism: ClassVar[bool] = False
    emits_rows: ClassVar[bool] = False

    @property
    def blocks_until_filled(self) -> bool:
        """Whether rows of other sources that look values up in it wait at the start until it is filled."""
        return False

    def select(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> DataFrame:
        """Return the part of the rows that it needs, as a plan over them (by node name); by default everything. The
        column `streamling.sql.plan.ROW` numbers the rows of a batch in source order."""
        return next(iter(inputs.values()))

    @classmethod
    def needs_input_schema(cls) -> bool:
        return False

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        """Find errors in the selection without Spark. Returns them and the columns of the input."""
        return (), next(iter(inputs.values()), pa.schema([]))

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        if inputs.names:
            inputs.apply(self.select)
        return None

    @abstractmethod
    def before_emit(self, rows: pa.Table, after: int) -> None:
        """Take the selected part of a batch that is about to be emitted. Its rows come after the marker of epoch
        ``after`` (0: none yet), so they belong to a later one."""

    def after_emit(self, complete: bool) -> None:
        """React when all consumers have received the batch; False: that failed, and its rows may be replayed."""

    def marker(self, epoch: int) -> Mapping[str, Any]:
        """Return what to store with the positions when all rows of ``epoch``, those with a lower ``after``, have been
        emitted: state key → JSON value; a value of None removes the key."""
        return {}


class LookupTable(SideOutput[OptionsT]):
    """A side output in which SQL looks values up: ``dynamic_table_check('name of the node', value)``."""

    @property
    def blocks_until_filled(self) -> bool:
        return True

    def lookup_expression(self, spark: SparkSession) -> Callable[[Column], Column] | None:
        """Return a function that turns a column of strings into one that says whether they are in the table (NULL for
        NULL), for Spark to compute itself. Called for every batch, by the thread that emits it. None: the results
        depend on the order of the rows, or only this process knows them; `contains` is called instead."""
        return None

    @abstractmethod
    def contains(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        """Return whether each of ``values`` (strings, or lists of strings) is in the table at the time of its row: with
        everything that rows before it added. ``rows`` are the row numbers. Called while the rows are emitted, by the
        same thread."""
