"""Kafka: source, sink, schema registry and consumer groups."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"kafka": "source:KafkaSource"},
    sinks={"kafka": "sink:KafkaSink"},
    config="config:KafkaConfig",
    metrics="metrics:METRICS",
    jars="jars.lock.json",
    java="java",
)
