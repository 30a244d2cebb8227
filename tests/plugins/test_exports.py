"""The names that plugins may rely on."""

import subprocess
import sys

import streamling.plugins
import streamling.testing


def test_the_public_names():
    assert streamling.plugins.__all__ == [
        "END",
        "Acknowledge",
        "AsyncCalls",
        "BadRow",
        "BatchOptions",
        "ByColumns",
        "ByPrimaryKey",
        "ConnectionCheck",
        "DeadLetterOptions",
        "End",
        "ExternalPosition",
        "FrameSink",
        "FrameTransform",
        "FreeFormOptions",
        "LookupTable",
        "Metrics",
        "NodeContext",
        "NodeState",
        "ParallelOptions",
        "Partitioning",
        "Position",
        "Preprocessor",
        "Progress",
        "RoundRobin",
        "SideOutput",
        "Sink",
        "SinkOptions",
        "Source",
        "SourceBatch",
        "SourceOptions",
        "SparkRead",
        "SqlFunction",
        "Stream",
        "StreamBatch",
        "StreamedSource",
        "StreamlingError",
        "Transform",
        "TransformOptions",
        "Unreachable",
        "UpstreamOptions",
        "Wait",
        "plugin",
    ]
    assert all(hasattr(streamling.plugins, name) for name in streamling.plugins.__all__)


def test_the_names_for_testing():
    assert streamling.testing.__all__ == [
        "Call",
        "CallLog",
        "PipelineHarness",
        "SinkContract",
        "SourceContract",
        "TransformContract",
    ]


def test_neither_needs_pytest_or_spark_to_be_imported():
    code = (
        "import sys, streamling.plugins, streamling.testing;"
        "print([name for name in ('pytest', 'pyspark') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
