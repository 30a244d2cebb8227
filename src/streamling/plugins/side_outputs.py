"""Side outputs: operators that see the rows of a node before anybody else gets them, and let them pass unchanged.

**Life.** ``open`` → for every batch of the node ``select`` (a plan), ``before_emit``, then ``after_emit`` → ``marker``
and ``finalized`` for every epoch → ``close``. One batch at a time: flows that meet in the node take turns.

**Delivery.** What a side output learns from a row must not outlive the row's epoch, or a replay after a crash finds
what the row itself left behind. So keep it in memory, hand it to the engine at the ``marker``, where it is stored in
one transaction with the positions of the epoch, and publish it when the epoch is ``finalized``; do the same at
``open`` with what ``context.state`` still holds under the keys given to the marker.

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
        """What of the rows it wants to see, as a plan over them (by node name); by default everything. The column
        `streamling.sql.plan.ROW` numbers the rows of a batch in source order."""
        return next(iter(inputs.values()))

    @classmethod
    def needs_input_schema(cls) -> bool:
        return False

    def static_check(self, inputs: Mapping[str, pa.Schema | None]) -> tuple[Sequence[SqlProblem], pa.Schema | None]:
        """What is wrong with the selection that can be seen without Spark, and the columns that it lets pass."""
        return (), next(iter(inputs.values()), pa.schema([]))

    def analyse(self, inputs: EmptyInputs) -> pa.Schema | None:
        if inputs.names:
            inputs.apply(self.select)
        return None

    @abstractmethod
    def before_emit(self, rows: pa.Table, after: int) -> None:
        """The selected part of a batch that is about to be emitted. Its rows come behind the marker of epoch
        ``after`` (0: none yet), so they belong to a later one."""

    def after_emit(self, complete: bool) -> None:
        """All consumers have been given the batch; False: that failed, and its rows may come again."""

    def marker(self, epoch: int) -> Mapping[str, Any]:
        """All rows of ``epoch`` have been emitted: those with a lower ``after``. What is to be stored with the
        positions, state key → JSON value; a value of None removes the key."""
        return {}


class LookupTable(SideOutput[OptionsT]):
    """A side output that SQL asks about values: ``dynamic_table_check('name of the node', value)``."""

    @property
    def blocks_until_filled(self) -> bool:
        return True

    def lookup_expression(self, spark: SparkSession) -> Callable[[Column], Column] | None:
        """Makes of a column of texts one that says whether they are in the table (NULL for NULL), for Spark to compute
        by itself. Called for every batch, by the thread that emits it. None: the answers depend on the order of the
        rows, or only this process knows them; `contains` is called instead."""
        return None

    @abstractmethod
    def contains(self, values: pa.Array, rows: pa.Array) -> pa.Array:
        """For each of ``values`` (texts, or lists of texts) whether it is in the table as the row with that number
        finds it: with everything that rows before it appended. Called while the rows are emitted, by the same
        thread."""
