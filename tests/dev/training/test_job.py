"""The training of an archive."""

from __future__ import annotations

import pytest
from tests.harness.pipelines import eventually, finish

from streamling.connectors.kafka.config import KafkaSourceSettings
from streamling.connectors.memory import collected_rows
from streamling.dev.training import job as training
from streamling.dev.training.fake_kafka import fake_kafka
from streamling.pipeline.config import AppConfig

pytestmark = pytest.mark.spark


def test_the_kafka_source_reads_the_fake_broker(spark):
    values = [training.encoded_change(number) for number in range(3)]
    with fake_kafka(training.TOPIC, training.CHANGE, values) as there:
        settings = KafkaSourceSettings(brokers=there.brokers, schema_registry_url=there.registry_url)
        with training.prepared_run(spark, training.KAFKA_PIPELINE, AppConfig(kafka_source=settings)) as run:
            run.start()
            try:
                eventually(lambda: run.failure is not None or run.rows_written().get("rows") == 3, 60)
            finally:
                run.stop("all is there")
                finish(run)
    rows = [(row["id"], row["name"], row["_gs_op"]) for row in collected_rows(run, "rows").to_pylist()]
    assert rows == [(0, "n0", "i"), (1, "n1", "i"), (2, "n2", "i")]
