"""Kafka sink: one message per row."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from streamling.pipeline.options import Parallel, SinkOptions
from streamling.pipeline.scalars import Duration, folded


class KafkaSinkOptions(Parallel, SinkOptions):
    """Messages in a Kafka topic, keyed by the primary key, with the row kind in the header `dbz.op`."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"topic"})
    requires_primary_key: ClassVar[bool] = True

    topic: str = Field(min_length=1, description="Topic to write to; created when it does not exist.")
    data_format: Annotated[Literal["avro", "json"], BeforeValidator(folded)] = Field(
        description="Encoding of the messages."
    )
    topic_partitions: int = Field(default=4, ge=1, description="Partitions of a topic that is created.")
    # Batching is the producer's here: rows are not collected in front of the node.
    batch_size: int | None = Field(default=None, ge=1, description="Messages per request (`batch.num.messages`).")
    batch_flush_interval: Duration | None = Field(
        default=None, description="Longest wait for a full request (`linger.ms`)."
    )
    message_max_bytes: int | None = Field(default=None, ge=1, description="Largest message (`message.max.bytes`).")
    compression: Literal["none", "gzip", "lz4"] = Field(default="lz4", description="Compression of messages.")
    deduplicate: bool = Field(default=True, description="Write only the last row per key of a batch.")
