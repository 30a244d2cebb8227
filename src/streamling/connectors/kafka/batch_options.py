"""How much of a topic one batch contains, and how many tasks read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamling.connectors.kafka.source_options import KafkaSourceOptions
    from streamling.plugins.context import NodeContext

#: messages per batch whose rows are collected into this process: fewer cost throughput, more only cost memory
_COLLECTED_ROWS = 200_000
#: messages per batch that stays in Spark, where it costs no memory: more rows share the fixed cost of a job
_ROWS = 1_000_000
#: minimum number of messages that justifies a task of its own
_MIN_MESSAGES_PER_TASK = 20_000
#: For every poll Spark asks the broker for the start and end of the partition. With Kafka's default of 500 messages per
#: poll this costs the broker 0.9 µs per message, with 2 000 it costs 0.4, with 10 000 0.25; but then garbage collection
#: costs as much more, since all messages of a poll are held as objects.
_MAX_POLL_RECORDS = "2000"
#: Milliseconds that a broker may hold back a fetch until it has data. It answers the requests of a connection in order,
#: and the request for the end of the partition follows a fetch for which there is no data left: with Kafka's default
#: every batch that catches up with its topic takes 500 ms longer.
_FETCH_MAX_WAIT_MS = "10"


@dataclass(frozen=True)
class BatchSize:
    """How large the batches of a source are."""

    #: maximum number of messages
    rows: int
    #: how many seconds after the last batch a batch with fewer messages starts; None: as soon as there are messages
    interval: float | None
    #: maximum number of messages that one task reads; None: tasks read whole partitions
    rows_per_task: int | None

    @classmethod
    def of(cls, context: NodeContext[KafkaSourceOptions], cores: int) -> BatchSize:
        """Return the size of batches. A large batch of one partition is split into consecutive ranges, one per core:
        the results of the tasks are combined in task order, which preserves the order of the partition."""
        options, config = context.options, context.config
        rows = (
            options.batch_size
            or config.explicit_value("record_batch_size")
            or (_COLLECTED_ROWS if context.collected else _ROWS)
        )
        interval = options.batch_flush_interval
        is_default = interval is None and options.latency != "realtime"
        if is_default and (milliseconds := config.explicit_value("record_batch_interval_ms")) is not None:
            interval = milliseconds / 1000
        is_split = context.is_splittable and options.parallelism is None
        return cls(rows, interval, max(_MIN_MESSAGES_PER_TASK, -(-rows // cores)) if is_split else None)

    def reader_options(self) -> dict[str, str]:
        """Return options of Spark's reader."""
        options = {"kafka.max.poll.records": _MAX_POLL_RECORDS, "kafka.fetch.max.wait.ms": _FETCH_MAX_WAIT_MS}
        if self.rows_per_task is not None:
            options["maxRecordsPerPartition"] = str(self.rows_per_task)
        return options


def end_offsets(start: Mapping[int, int], ends: Mapping[int, int], rows: int) -> dict[int, int]:
    """Return the offsets up to which a batch of at most ``rows`` messages reads partitions that end at ``ends``: each
    partition gets a share in proportion to its backlog, but at least one message."""
    backlog = {partition: max(0, end - start[partition]) for partition, end in ends.items()}
    total = sum(backlog.values())
    if total <= rows:
        return {partition: start[partition] + count for partition, count in backlog.items()}
    shares = {partition: max(1, rows * count // total) if count else 0 for partition, count in backlog.items()}
    return {partition: start[partition] + count for partition, count in shares.items()}
