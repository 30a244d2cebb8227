"""Our own Java classes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def find_class(spark: SparkSession, name: str) -> Any | None:
    """The class of this name; None if the JVM does not have our classes, which come with the connector for Kafka."""
    return _find_class(spark.sparkContext._gateway, name)


@cache
def _find_class(gateway: Any, name: str) -> Any | None:
    """Found once: to look it up takes several calls."""
    from py4j.java_gateway import JavaClass

    found = getattr(gateway.jvm.streamling, name)
    return found if isinstance(found, JavaClass) else None
