"""How much of a topic one batch contains, and how many tasks read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamling.connectors.kafka.source import KafkaSourceOptions
    from streamling.plugins.context import NodeContext

#: messages per batch whose rows are collected into this process: fewer cost throughput, more only cost memory
_COLLECTED_ROWS = 200_000
#: messages per batch that stays in Spark, where it costs no memory: more rows share the fixed cost of a trigger
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

#: options of Spark's reader that only apply to streams
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


def batch_options(context: NodeContext[KafkaSourceOptions], cores: int) -> dict[str, str]:
    """Return the options of Spark's reader. A large batch of one partition is split into consecutive ranges, one per
    core: the results of the tasks are combined in task order, which preserves the order of the partition."""
    options, config = context.options, context.config
    rows = (
        options.batch_size
        or config.explicit_value("record_batch_size")
        or (_COLLECTED_ROWS if context.collected else _ROWS)
    )
    interval = options.batch_flush_interval
    if interval is None and (milliseconds := config.explicit_value("record_batch_interval_ms")) is not None:
        interval = milliseconds / 1000
    reader_options = {
        "maxOffsetsPerTrigger": str(rows),
        "kafka.max.poll.records": _MAX_POLL_RECORDS,
        "kafka.fetch.max.wait.ms": _FETCH_MAX_WAIT_MS,
    }
    if interval is not None:
        reader_options["minOffsetsPerTrigger"] = str(rows)
        reader_options["maxTriggerDelay"] = f"{int(interval * 1000)}ms"
    if context.is_splittable and options.parallelism is None:
        reader_options["maxRecordsPerPartition"] = str(max(_MIN_MESSAGES_PER_TASK, -(-rows // cores)))
    return reader_options
