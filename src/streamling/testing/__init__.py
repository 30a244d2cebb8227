"""Contract tests for plugins: derive a test class, say what is tested, and pytest does the rest.

    from streamling.testing import SinkContract

    class TestOrdersSink(SinkContract):
        operator = OrdersSink

        def durable(self):
            return rows_of("orders.jsonl")

The tests run the operator in real pipelines of the engine (flows, lanes, checkpoints, state), with faults placed
where they hurt. Spark is not started; an operator that cannot do without gets a session through ``session``.
"""

from streamling.testing.call_log import Call, CallLog
from streamling.testing.harness import PipelineHarness
from streamling.testing.sink import SinkContract
from streamling.testing.source import SourceContract
from streamling.testing.transform import TransformContract

__all__ = ["Call", "CallLog", "PipelineHarness", "SinkContract", "SourceContract", "TransformContract"]
