"""How much of a topic is one batch, and how many tasks read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streamling.connectors.kafka.source import KafkaSourceOptions
    from streamling.plugins.context import NodeContext

#: messages per batch whose rows come into this process: below it throughput suffers, above it only memory grows
_COLLECTED_ROWS = 200_000
#: and per batch that stays in Spark, where it costs no memory: what a trigger costs by itself is shared by more rows
_ROWS = 1_000_000
#: messages that are worth a task of their own
_FEWEST_PER_TASK = 20_000
#: For every poll Spark asks the broker where the partition begins and ends. With Kafka's default of 500 messages per
#: poll the broker's work is 0.9 µs per message, with 2 000 it is 0.4, with 10 000 it is 0.25; but then the collector's
#: work grows by as much, since all messages of a poll are held as objects.
_MOST_PER_POLL = "2000"
#: Milliseconds that a broker may hold a fetch back until there is something to send. It answers one request of a
#: connection after the other, and the question where the partition ends comes after a fetch for which there is nothing
#: any more: with Kafka's default every batch that catches up with its topic takes 500 ms longer.
_LONGEST_FETCH = "10"

#: options of Spark's reader that only a stream knows
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")


def batch_options(context: NodeContext[KafkaSourceOptions], cores: int) -> dict[str, str]:
    """Options of Spark's reader. A large batch of one partition is cut into consecutive ranges, one per core: whoever
    puts the rows of several tasks together keeps the order of tasks, and with it the order of the partition."""
    options, config = context.options, context.config
    rows = (
        options.batch_size
        or config.explicit_value("record_batch_size")
        or (_COLLECTED_ROWS if context.collected else _ROWS)
    )
    interval = options.batch_flush_interval
    if interval is None and (milliseconds := config.explicit_value("record_batch_interval_ms")) is not None:
        interval = milliseconds / 1000
    chosen = {
        "maxOffsetsPerTrigger": str(rows),
        "kafka.max.poll.records": _MOST_PER_POLL,
        "kafka.fetch.max.wait.ms": _LONGEST_FETCH,
    }
    if interval is not None:
        chosen["minOffsetsPerTrigger"] = str(rows)
        chosen["maxTriggerDelay"] = f"{int(interval * 1000)}ms"
    if context.is_splittable and options.parallelism is None:
        chosen["maxRecordsPerPartition"] = str(max(_FEWEST_PER_TASK, -(-rows // cores)))
    return chosen
