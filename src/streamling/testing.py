"""Contract tests for plugins: derive a test class, set what it tests, and run pytest.

    from streamling.testing import SinkContract

    class TestOrdersSink(SinkContract):
        operator = OrdersSink

        def durable(self):
            return rows_of("orders.jsonl")

The tests run the operator in real pipelines of the engine (flows, lanes, checkpoints, state), and inject faults
at critical points. Spark is not started; set ``session`` for an operator that needs it.
"""

from streamling.dev.contracts.call_log import Call, CallLog
from streamling.dev.contracts.harness import PipelineHarness
from streamling.dev.contracts.sink import SinkContract
from streamling.dev.contracts.source import SourceContract
from streamling.dev.contracts.transform import TransformContract

__all__ = ["Call", "CallLog", "PipelineHarness", "SinkContract", "SourceContract", "TransformContract"]
