"""The Kafka sink fulfils the contract of sinks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from streamling.connectors.kafka.config import KafkaSinkSettings
from streamling.connectors.kafka.sink import KafkaSink
from streamling.testing import SinkContract
from tests.connectors.kafka.sink_driver import KafkaSinkBench


@pytest.mark.spark
@pytest.mark.services
class TestKafkaSink(SinkContract):
    @pytest.fixture(autouse=True)
    def _place(self, spark, kafka, registry) -> None:
        section = KafkaSinkSettings(brokers=kafka.brokers, schema_registry_url=registry.url)
        self.session, self.place = spark, KafkaSinkBench(spark, kafka, registry)
        self.topic = self.place.topic()

        class Placed(KafkaSink):
            """Uses the broker of the test."""

            def __init__(self, context: Any) -> None:
                config = context.config.model_copy(update={"kafka_sink": section})
                super().__init__(replace(context, config=config))

        self.operator = Placed

    def options(self) -> dict[str, Any]:
        return {"topic": self.topic, "data_format": "avro", "primary_key": "id"}

    def durable(self) -> list[Mapping[str, Any]]:
        return list(self.place.rows(self.topic)) if self.place.partitions(self.topic) else []
