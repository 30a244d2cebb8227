"""Everything a plugin needs: derive from one of these classes, give it an id, name the id in a pipeline.

@plugin("acme.numbers")
class Numbers(Source[NumbersOptions]): ...
"""

from streamling.errors import BadRow, StreamlingError, Unreachable
from streamling.pipeline.options import (
    BatchOptions,
    DeadLetterOptions,
    FreeFormOptions,
    ParallelOptions,
    SinkOptions,
    SourceOptions,
    TransformOptions,
    UpstreamOptions,
)
from streamling.plugins.connections import ConnectionCheck, ExternalPosition
from streamling.plugins.context import Metrics, NodeContext, NodeState
from streamling.plugins.loader import plugin
from streamling.plugins.partitioning import ByColumns, ByPrimaryKey, Partitioning, RoundRobin
from streamling.plugins.preprocessor import Preprocessor
from streamling.plugins.side_outputs import LookupTable, SideOutput
from streamling.plugins.sinks import Acknowledge, FrameSink, Sink
from streamling.plugins.sources import END, End, Position, Progress, Source, SourceBatch, SparkRead, Wait
from streamling.plugins.streams import Stream, StreamBatch, StreamedSource
from streamling.plugins.transforms import AsyncCalls, FrameTransform, Transform
from streamling.sql.user_functions import SqlFunction

__all__ = [
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
