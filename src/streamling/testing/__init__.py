"""Contract tests for plugins: derive a test class, set what it tests, and run pytest.

    from streamling.testing import SinkContract

    class TestOrdersSink(SinkContract):
        operator = OrdersSink

        def durable(self):
            return rows_of("orders.jsonl")

The tests run the operator in real pipelines of the engine (flows, lanes, checkpoints, state), and inject faults
at critical points. Spark is not started; set ``session`` for an operator that needs it.
"""

from streamling.testing.call_log import Call, CallLog
from streamling.testing.harness import PipelineHarness
from streamling.testing.sink import SinkContract
from streamling.testing.source import SourceContract
from streamling.testing.transform import TransformContract

__all__ = ["Call", "CallLog", "PipelineHarness", "SinkContract", "SourceContract", "TransformContract"]
