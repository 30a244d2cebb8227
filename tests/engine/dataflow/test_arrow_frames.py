"""Arrow data that has been passed to the JVM does not stay there."""

from __future__ import annotations

import gc

import pyarrow as pa
import pytest

from streamling.engine.dataflow.arrow_frames import to_frame

pytestmark = pytest.mark.spark

_MEGABYTE = 1 << 20


def heap(spark) -> int:
    """Megabytes in use after a garbage collection of the JVM."""
    runtime = spark._jvm.java.lang.Runtime.getRuntime()
    for _ in range(2):
        spark._jvm.java.lang.System.gc()
    return int(runtime.totalMemory() - runtime.freeMemory()) // _MEGABYTE


def test_frames_that_are_no_longer_used_are_released(spark):
    """Although Python itself sees no reason to collect garbage."""
    batch = pa.record_batch({"text": ["x" * 1024] * 4096})
    gc.collect()
    gc.disable()
    try:
        before = heap(spark)
        for _ in range(100):
            to_frame(spark, [batch]).selectExpr("upper(text) AS text")
        assert heap(spark) - before < 200
    finally:
        gc.enable()
