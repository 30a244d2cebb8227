"""The table with the offsets up to which a topic has been loaded into ClickHouse."""

from __future__ import annotations

from typing import Any

import pytest

from streamling.connectors.hybrid.offset_table import LoadedOffsets
from streamling.connectors.hybrid.options import HybridSourceOptions
from streamling.errors import StreamlingError
from tests.connectors.hybrid.driver import Database

pytestmark = pytest.mark.services


@pytest.fixture
def database(clickhouse) -> Database:
    return Database(clickhouse)


def loaded(database: Database, **offset_table: Any) -> LoadedOffsets:
    unbounded = {"source_type": "kafka", "topic": "orders"}
    block = {"offset_table": offset_table} if offset_table else {}
    options = HybridSourceOptions(type="hybrid", bounded_sources=[], unbounded_source=unbounded, **block)
    return LoadedOffsets(options, database.server(), "tests")


def test_without_the_default_table_there_are_no_offsets(database):
    assert loaded(database).read() is None


def test_the_default_table_is_used_if_it_exists(database):
    database.offsets({("orders", 0): 12, ("orders", 1): 0, ("other", 0): 99})
    assert loaded(database).read() == {0: 12, 1: 0}


def test_a_default_table_with_other_columns_is_not_an_offset_table(database):
    database.execute("CREATE TABLE kafka_offsets (a Int32) ENGINE = MergeTree ORDER BY a")
    assert loaded(database).read() is None


def test_a_table_may_have_no_row_of_the_topic(database):
    database.offsets({("other", 0): 99})
    assert loaded(database).read() == {}
    assert loaded(database, topic_name="other").read() == {0: 99}


def test_the_last_offset_of_a_partition_counts(database):
    for offset in (5, 900, 40):
        database.offsets({("orders", 0): offset})
    assert loaded(database).read() == {0: 900}


def test_names_are_those_of_the_pipeline_file_whatever_they_contain(database):
    database.execute(
        "CREATE TABLE `loaded so far` (`the topic` LowCardinality(String), `p'` String, `o\\`` Nullable(UInt64)) "
        "ENGINE = MergeTree ORDER BY `the topic`",
        "INSERT INTO `loaded so far` VALUES ('it\\'s', '0', 7), ('it\\'s', '1', NULL), ('x', '0', 1)",
    )
    names = {
        "table_name": "loaded so far",
        "topic_column": "the topic",
        "partition_column": "p'",
        "offset_column": "o`",
    }
    assert loaded(database, topic_name="it's", **names).read() == {0: 7}


def test_a_table_of_another_database_can_be_named(database, clickhouse):
    other = Database(clickhouse)
    other.offsets({("orders", 0): 3}, table="loaded")
    assert loaded(database, topic_name="orders", table_name=f"{other.name}.loaded").read() == {0: 3}


def test_a_named_table_must_exist(database):
    with pytest.raises(StreamlingError) as caught:
        loaded(database, topic_name="orders", table_name="loaded").read()
    assert f"the offset table {database.name}.loaded does not exist at" in str(caught.value)
    assert caught.value.remedy == "create it, or correct offset_table.table_name"


def test_a_named_table_must_have_the_columns(database):
    database.offsets({})
    with pytest.raises(StreamlingError) as caught:
        loaded(database, topic_name="orders", offset_column="next", partition_column="part").read()
    assert str(caught.value) == f"the offset table {database.name}.kafka_offsets has no column 'part', 'next'"
    assert caught.value.remedy == "correct partition_column, offset_column of offset_table"


def test_a_negative_offset_is_an_error(database):
    database.execute(
        "CREATE TABLE kafka_offsets (topic String, partition Int32, offset Int64) ENGINE = MergeTree ORDER BY topic",
        "INSERT INTO kafka_offsets VALUES ('orders', 0, -1)",
    )
    with pytest.raises(StreamlingError, match="has the offset -1 for partition 0 of the topic 'orders'"):
        loaded(database).read()
