"""The context of an operator: its options, its input columns, its state, and calls to the pipeline."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import pyarrow as pa

from streamling.errors import BadRow, StreamlingError
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.config import AppConfig
from streamling.plugins.delivery import Deliveries, Delivery
from streamling.plugins.operators import OptionsT
from streamling.plugins.shared import SharedResources
from streamling.retry import Stopping, call_with_retries, ignore_retry
from streamling.sql.user_functions import SqlFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from streamling.plugins.rejects import RejectedRows
    from streamling.plugins.side_outputs import LookupTable


T = TypeVar("T")


class NodeState(Protocol):
    """Small durable values of a node, in the pipeline's namespace of the state backend."""

    @property
    def is_exclusive(self) -> bool:
        """Whether no other process writes entries of this pipeline while this one runs. False on executors, where every
        other access is an error."""

    @property
    def is_shared(self) -> bool:
        """Whether other instances of the pipeline see the same entries."""

    def get(self, key: str) -> Any | None:
        """Return the JSON value under ``key``, None when there is none."""

    def get_prefix(self, prefix: str) -> Mapping[str, Any]:
        """Return all entries whose key starts with ``prefix``."""

    def put(self, key: str, value: Any) -> None:
        """Store a JSON value immediately. Do not store positions this way: the engine stores them."""

    def put_if_absent(self, entries: Mapping[str, Any]) -> None:
        """Store those of ``entries`` whose keys do not exist yet, immediately."""

    def remove(self, key: str) -> None:
        """Remove ``key``."""

    def clear(self) -> None:
        """Remove all entries of this node and its instances: those under its name, and under ``name:…``. They include
        a source's position; the next checkpoint stores its position again."""

    def claim(self, keys: Collection[str]) -> Mapping[str, Any]:
        """Take ``keys`` over from other instances, which cannot write them from now on, and return their entries."""


class Metrics(Protocol):
    """Records the metrics of an operator, from any thread; tags are added to those of the node. A name is a counter, a
    latency or a gauge, never two of these."""

    def count(self, name: str, value: int = 1, tags: Mapping[str, str] | None = None) -> None: ...

    def latency(self, name: str, seconds: float, tags: Mapping[str, str] | None = None) -> None: ...

    def gauge(self, name: str, value: float, tags: Mapping[str, str] | None = None) -> None: ...

    def remove(self, name: str, tags: Mapping[str, str] | None = None) -> None:
        """Remove the series with exactly these tags: the gauge of something that no longer exists."""


def ignore_stop(reason: str, keep_position: bool) -> None:
    """Ignore the request, for operators that run outside of a pipeline."""


def always_ready(timeout: float) -> bool:
    """Return True, for operators that run outside of a flow."""
    return True


def unchanged(frame: DataFrame) -> DataFrame:
    """Return the rows, for operators whose rows are not measured."""
    return frame


@dataclass(frozen=True)
class NodeContext(Generic[OptionsT]):
    """Everything that one instance of an operator knows about its pipeline."""

    name: str
    options: OptionsT
    config: AppConfig
    state: NodeState
    metrics: Metrics
    primary_key: tuple[str, ...] = ()
    #: columns of the input; empty for sources
    input_schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    #: whether rows of this node are loaded into this process, so that a batch has to fit into its memory
    collected: bool = True
    #: whether Spark may read ordered data with several tasks. It may not when rows of this node are distributed by key
    #: further down, which mixes the rows of several tasks
    is_splittable: bool = True
    #: this instance's number and how many there are (``parallelism``)
    instance: int = 0
    instances: int = 1
    #: what the operators of the pipeline share, such as a client with its connections
    shared: SharedResources = field(default_factory=SharedResources)
    #: the dynamic tables of the pipeline by the names of their nodes
    tables: Mapping[str, LookupTable[Any]] = field(default_factory=dict)
    #: set when the pipeline is about to stop: long waits should end
    stopping: Stopping = field(default_factory=threading.Event)
    #: ask the pipeline to stop cleanly, as on SIGTERM, giving a reason; with True as second argument the
    #: unfinished epoch is not committed and its rows are replayed by the next run
    request_stop: Callable[[str, bool], None] = ignore_stop
    #: for a streamed source, from its own thread: start no further batch and call ``stream`` again. Waits up to the
    #: given seconds for the current batch; True when everything that was read has been handed to the sinks
    restart_stream: Callable[[float], bool] = always_ready
    #: store the positions of the flows without waiting for the next checkpoint. Waits up to the given seconds; True
    #: when everything that was delivered before the call is durable and its position is stored
    checkpoint: Callable[[float], bool] = always_ready

    #: called with the error that the operator is retrying, and with None once it succeeds: a timeout of the node can
    #: then report the cause
    report_retry: Callable[[StreamlingError | None], None] = ignore_retry

    #: whether nothing outside of this process may be changed: the run is a preview
    read_only: bool = False

    #: whether somebody else makes sure that the pipeline runs once, such as the server whose catalogue it is in
    runs_once: bool = False

    #: adds the engine's measures (event times, row kinds) to the DataFrame of a source. A streamed source that drops
    #: rows itself, such as those that do not match its `filter`, calls it before; the engine measures all other rows
    measure_rows: Callable[[DataFrame], DataFrame] = unchanged

    #: rejected rows that wait for the dead-letter sink; None when the node has none
    rejected_rows: RejectedRows | None = None

    #: what became of the rows of a sink
    deliveries: Deliveries = field(default_factory=Deliveries)

    #: columns that have been reported as dropped; the instances of a node share it
    dropped_columns: dict[str, object] = field(default_factory=dict)

    #: functions that plugins add to SQL, by name
    functions: Mapping[str, type[SqlFunction]] = field(default_factory=dict)

    def reject(self, rows: pa.RecordBatch, error: str) -> None:
        """Send ``rows``, as received, to the node's dead-letter sink because of ``error``. If the node has none, the
        error is raised. Call it while rows are read, processed or written, or flushed for a marker."""
        if self.rejected_rows is None:
            raise BadRow.user(error)
        self.rejected_rows.add(rows, error)

    def count_delivered(self, rows: int, *, deduplicated: int = 0, skipped: int = 0) -> None:
        """Count rows of a sink, from any thread: the target has acknowledged ``rows`` rows. Others need not be sent,
        because later rows of their batch replace them, or are left out as the options say. Rows that were neither
        reported here nor rejected count as delivered once their epoch is acknowledged."""
        self.deliveries.add(Delivery(rows, deduplicated, skipped))

    def report_dropped_columns(self, what: str, names: Iterable[str]) -> None:
        """Warn about columns that are not part of the node's output: ``what`` happened, then those of ``names`` that no
        instance has reported before."""
        mine = object()
        if new := [name for name in names if self.dropped_columns.setdefault(name, mine) is mine]:
            self.log.warning("%s: %s", what, ", ".join(f"'{name}'" for name in new))

    def retry(self, work: Callable[[], T]) -> T:
        """Call ``work`` until it succeeds. An error that is marked retriable is logged and retried with back-off until
        the pipeline stops; any other one is raised immediately. `Unreachable` is retried for `startup_timeout_sec`
        only."""
        return call_with_retries(
            work,
            stopping=self.stopping,
            log=self.log,
            startup_timeout=self.config.startup_timeout_sec,
            report=self.report_retry,
        )

    @property
    def network(self) -> NetworkPolicy:
        """The addresses that clients of the node may connect to."""
        return NetworkPolicy.of(self.config.network)

    @property
    def state_key(self) -> str:
        """The key of a source's position: the node's name, with the number of the instance if there are several."""
        return self.state_keys[self.instance]

    @property
    def state_keys(self) -> tuple[str, ...]:
        """The `state_key` of every instance."""
        return (self.name,) if self.instances == 1 else tuple(f"{self.name}:{i}" for i in range(self.instances))

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger(f"streamling.node.{self.name}")
