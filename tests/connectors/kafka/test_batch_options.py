"""How large batches are, and how many tasks read them."""

from __future__ import annotations

from typing import Any

from streamling.connectors.kafka.batch_options import BatchSize, end_offsets
from streamling.connectors.kafka.source_options import KafkaSourceOptions
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics


def _size(*, cores: int = 2, collected: bool = True, is_splittable: bool = True, **options: Any) -> BatchSize:
    node = KafkaSourceOptions(type="kafka", topic="t", **options)
    context = NodeContext(
        "rows", node, AppConfig(), MemoryState(), NoopMetrics(), collected=collected, is_splittable=is_splittable
    )
    return BatchSize.of(context, cores)


def test_each_core_gets_a_share_of_a_batch():
    assert _size() == BatchSize(200_000, None, 100_000)
    assert _size(cores=3, batch_size=100_000).reader_options()["maxRecordsPerPartition"] == "33334"


def test_batches_that_stay_in_spark_are_larger():
    assert _size(collected=False).rows == 1_000_000


def test_the_user_decides_how_large_they_are():
    assert _size(collected=False, batch_size=500).rows == 500


def test_few_messages_do_not_get_their_own_task():
    assert _size(cores=64).rows_per_task == 20_000


def test_rows_that_are_repartitioned_by_key_later_are_read_by_one_task():
    assert "maxRecordsPerPartition" not in _size(is_splittable=False).reader_options()


def test_an_interval_makes_a_batch_wait_until_it_is_full():
    size = _size(batch_size=10, batch_flush_interval="1500ms")
    assert (size.rows, size.interval) == (10, 1.5)


def test_a_batch_reads_everything_if_it_can():
    assert end_offsets({0: 5, 1: 7}, {0: 10, 1: 7}, rows=5) == {0: 10, 1: 7}


def test_partitions_share_a_batch_in_proportion_to_their_backlog():
    assert end_offsets({0: 0, 1: 100, 2: 9}, {0: 300, 1: 200, 2: 9}, rows=40) == {0: 30, 1: 110, 2: 9}


def test_each_partition_with_messages_gets_at_least_one():
    assert end_offsets({0: 0, 1: 0}, {0: 1_000_000, 1: 1}, rows=10) == {0: 9, 1: 1}


def test_an_end_before_the_start_is_ignored():
    """The last stable offset may be before a position that was stored while open transactions were read."""
    assert end_offsets({0: 8}, {0: 5}, rows=10) == {0: 8}
