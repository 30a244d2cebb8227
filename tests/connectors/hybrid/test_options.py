"""The fields of a hybrid source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamling.connectors.hybrid.options import HybridSourceOptions
from streamling.connectors.kafka.source_options import AvroDecoding
from streamling.errors import InvalidPipeline
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.registry import Registry

DECODING = {
    "validate_writer_schema_ordering": False,
    "schema_id_overrides": [{"from": 1, "to": 2}],
    "skip_schema_resolution": True,
    "skip_schema_resolution_for_reader_schema_ids": [7],
}


def pipeline(**fields: Any):
    unbounded = {"source_type": "kafka", "topic": "t", **fields.pop("unbounded_source", {})}
    source = {"type": "hybrid", "primary_key": "id", "bounded_sources": [], "unbounded_source": unbounded, **fields}
    text = json.dumps({"sources": {"orders": source}, "sinks": {"out": {"type": "blackhole", "from": "orders"}}})
    return parse_pipeline(text, registry=Registry.builtin())


def test_every_field_of_the_topic_reaches_the_kafka_source():
    options = pipeline(unbounded_source={"filter": "id > 0", "start_at": "latest", **DECODING})["orders"].options
    assert isinstance(options, HybridSourceOptions)
    kafka = options.kafka
    assert (kafka.topic, kafka.filter, kafka.starting_offsets) == ("t", "id > 0", "latest")
    assert (kafka.data_format, kafka.include_metadata, kafka.primary_key) == ("avro", False, ("id",))
    assert DECODING.keys() == AvroDecoding.model_fields.keys()
    assert kafka.model_dump(by_alias=True, include=set(DECODING)) == DECODING


def test_the_columns_of_a_table_have_no_effect_and_a_warning_says_so(caplog):
    tables = [{"source_type": "clickhouse", "table_name": name, **columns} for name, columns in TABLES.items()]
    pipeline(bounded_sources=tables).with_config_defaults(AppConfig())
    assert caplog.messages == [
        "hybrid source 'orders': `bounded_sources[1].columns` has no effect: the columns are those of the topic"
    ]


TABLES: dict[str, dict[str, str]] = {"a": {}, "b": {"columns": "id, name"}}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"bounded_sources": [{"source_type": "postgres", "table_name": "t"}]},
            "'bounded_sources[0].source_type' is 'postgres'; allowed: 'clickhouse'",
        ),
        (
            {"unbounded_source": {"source_type": "nats"}},
            "'unbounded_source.source_type' is 'nats'; allowed: 'kafka'",
        ),
        (
            {"unbounded_source": {"schema_id_overrides": [{"from": 1, "to": 2}, {"from": 1, "to": 3}]}},
            "of topic 't' overrides the schema id 1 twice",
        ),
        ({"unbounded_source": {"start_at": "yesterday"}}, "'unbounded_source.start_at' is 'yesterday'"),
        ({"unbounded_source": {"include_metadata": True}}, "unknown field 'unbounded_source.include_metadata'"),
    ],
)
def test_invalid_fields_are_named(fields, message):
    with pytest.raises(InvalidPipeline) as caught:
        pipeline(**fields)
    assert message in str(caught.value)
