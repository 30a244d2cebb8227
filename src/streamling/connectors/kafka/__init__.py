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
    spark_settings={
        # What a task has fetched beyond its range is kept for the task that continues there. When several tasks read a
        # partition, each batch leaves some behind that nobody asks for; Spark's default keeps it for 5 minutes.
        "spark.kafka.consumer.fetchedData.cache.timeout": "2s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
    },
)
