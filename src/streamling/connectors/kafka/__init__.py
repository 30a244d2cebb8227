"""Kafka: source, sink, schema registry and consumer groups."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"kafka": "source:KafkaSource"},
    sinks={"kafka": "sink:KafkaSink"},
    config="config:KafkaConfig",
    metrics="metrics:METRICS",
    jars="jars.lock.json",
    spark_settings={
        # Messages that a task has fetched beyond its range are cached for the task that continues there. When several
        # tasks read a partition, each batch leaves some behind that are never used; Spark's default keeps them for 5
        # minutes.
        "spark.kafka.consumer.fetchedData.cache.timeout": "2s",
        "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "1s",
        # All others, but not kafka: Spark's older reader converts every message to a Java object and back.
        "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    },
)
