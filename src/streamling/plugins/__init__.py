"""Everything a plugin needs: derive from one of these classes, give it an id, name the id in a pipeline.

@plugin("acme.numbers")
class Numbers(Source[NumbersOptions]): ...
"""

from streamling.errors import BadRow, StreamlingError, Unreachable
from streamling.pipeline.options import (
    Downstream,
    FreeForm,
    Parallel,
    Rebatched,
    Rejecting,
    SinkOptions,
    SourceOptions,
    TransformOptions,
)
from streamling.plugins.connections import Connection, OutsidePosition
from streamling.plugins.context import Metrics, NodeContext, NodeState
from streamling.plugins.loader import plugin
from streamling.plugins.operators import (
    END,
    Acknowledge,
    Calls,
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
from streamling.plugins.partitions import ByColumns, ByPrimaryKey, Partitions, RoundRobin
from streamling.plugins.preprocessor import Preprocessor
from streamling.plugins.side_outputs import LookupTable, SideOutput
from streamling.sql.user_functions import SqlFunction

__all__ = [
    "END",
    "Acknowledge",
    "BadRow",
    "ByColumns",
    "ByPrimaryKey",
    "Calls",
    "Connection",
    "Downstream",
    "End",
    "FrameSink",
    "FrameTransform",
    "FreeForm",
    "LookupTable",
    "Metrics",
    "NodeContext",
    "NodeState",
    "OutsidePosition",
    "Parallel",
    "Partitions",
    "Position",
    "Preprocessor",
    "Progress",
    "Rebatched",
    "Rejecting",
    "RoundRobin",
    "SideOutput",
    "Sink",
    "SinkOptions",
    "Source",
    "SourceBatch",
    "SourceOptions",
    "SparkRead",
    "SqlFunction",
    "StreamedSource",
    "StreamlingError",
    "Transform",
    "TransformOptions",
    "Unreachable",
    "Wait",
    "plugin",
]
