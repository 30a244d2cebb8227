"""How large batches are, and how many tasks read them."""

from __future__ import annotations

from typing import Any

from streamling.config import AppConfig
from streamling.connectors.kafka.batch_options import batch_options
from streamling.connectors.kafka.source import KafkaSourceOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.state.memory import MemoryState


def _pace(*, cores: int = 2, collected: bool = True, is_splittable: bool = True, **options: Any) -> dict[str, str]:
    node = KafkaSourceOptions(type="kafka", topic="t", **options)
    context = NodeContext(
        "rows", node, AppConfig(), MemoryState(), NoopMetrics(), collected=collected, is_splittable=is_splittable
    )
    return batch_options(context, cores)


def test_each_core_gets_a_share_of_a_batch():
    assert (_pace()["maxOffsetsPerTrigger"], _pace()["maxRecordsPerPartition"]) == ("200000", "100000")
    assert _pace(cores=3, batch_size=100_000)["maxRecordsPerPartition"] == "33334"


def test_batches_that_stay_in_spark_are_larger():
    assert _pace(collected=False)["maxOffsetsPerTrigger"] == "1000000"


def test_the_user_decides_how_large_they_are():
    assert _pace(collected=False, batch_size=500)["maxOffsetsPerTrigger"] == "500"


def test_few_messages_do_not_get_their_own_task():
    assert _pace(cores=64)["maxRecordsPerPartition"] == "20000"


def test_rows_that_are_repartitioned_by_key_later_are_read_by_one_task():
    assert "maxRecordsPerPartition" not in _pace(is_splittable=False)


def test_an_interval_makes_a_batch_wait_until_it_is_full():
    paced = _pace(batch_size=10, batch_flush_interval="1500ms")
    assert (paced["minOffsetsPerTrigger"], paced["maxTriggerDelay"]) == ("10", "1500ms")
