from __future__ import annotations

import pytest

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.dev.services.topics import Message, create_topic, produce
from streamling.errors import StreamlingError

pytestmark = [pytest.mark.spark, pytest.mark.services]


def test_offsets_by_position_and_time(spark, kafka) -> None:
    create_topic(kafka.brokers, "admin-offsets", partitions=2)
    produce(kafka.brokers, "admin-offsets", [Message(b"x", partition=1, timestamp=1_000 + n) for n in range(3)])
    admin = KafkaAdmin(spark, {"bootstrap.servers": kafka.brokers})
    assert admin.partitions("admin-offsets") == [0, 1]
    assert admin.earliest("admin-offsets", [0, 1]) == {0: 0, 1: 0}
    assert admin.latest("admin-offsets", [0, 1]) == {0: 0, 1: 3}
    assert admin.at_time("admin-offsets", [0, 1], 1_001) == {0: 0, 1: 1}
    assert admin.at_time("admin-offsets", [1], 9_999) == {1: 3}
    admin.close()


def test_a_missing_topic_is_a_user_error(spark, kafka) -> None:
    admin = KafkaAdmin(spark, {"bootstrap.servers": kafka.brokers})
    with pytest.raises(StreamlingError, match="the topic 'admin-none' does not exist") as caught:
        admin.partitions("admin-none")
    assert not caught.value.internal
    assert not admin.exists("admin-none")
    admin.close()
