"""Everything a plugin needs: derive from one of these classes, give it an id, name the id in a pipeline.

from streamling.plugins import END, Source, SourceBatch, plugin

@plugin("acme.numbers")
class Numbers(Source): ...
"""

from streamling.errors import StreamlingError
from streamling.pipeline.options import Downstream, Parallel, Rebatched, SinkOptions, SourceOptions, TransformOptions
from streamling.plugins.context import Metrics, NodeContext, NodeState
from streamling.plugins.loader import plugin
from streamling.plugins.operators import (
    END,
    End,
    FrameSink,
    FrameTransform,
    Position,
    Progress,
    Sink,
    Source,
    SourceBatch,
    SparkRead,
    StreamedSource,
    Transform,
    Wait,
)

__all__ = [
    "END",
    "Downstream",
    "End",
    "FrameSink",
    "FrameTransform",
    "Metrics",
    "NodeContext",
    "NodeState",
    "Parallel",
    "Position",
    "Progress",
    "Rebatched",
    "Sink",
    "SinkOptions",
    "Source",
    "SourceBatch",
    "SourceOptions",
    "SparkRead",
    "StreamedSource",
    "StreamlingError",
    "Transform",
    "TransformOptions",
    "Wait",
    "plugin",
]
