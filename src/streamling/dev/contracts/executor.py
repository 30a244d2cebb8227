"""Runs an operator like a Spark executor: pickled, then called with batches. Needs no cluster."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from streamling.dev.contracts.contract import add_operation
from streamling.dev.contracts.harness import NAME, PipelineHarness
from streamling.engine.planning.executor_work import on_executor
from streamling.plugins.operators import Operator


def run_on_executor(
    harness: PipelineHarness, operator: type[Operator[Any]], batches: list[pa.RecordBatch]
) -> list[pa.RecordBatch]:
    """Return the result of a partition of ``batches`` there; ``operator`` is the class as its author wrote it."""
    from pyspark import cloudpickle

    run = harness.prepare(batches)
    assert run.analysis is not None
    planned = run.analysis.nodes[NAME]
    function = pickle.loads(cloudpickle.dumps(on_executor(planned, operator)))  # type: ignore[no-untyped-call]
    made: Iterable[pa.RecordBatch] = function(map(add_operation, batches))
    return list(made)
