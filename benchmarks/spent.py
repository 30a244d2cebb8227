"""The cost of a job: elapsed time, and CPU time of this process and its children."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from benchmarks.usage import available, usage
from benchmarks.watching import EXPORTED, watching
from streamling.engine.run.run import PipelineRun
from streamling.pipeline.parse import parse_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.pipeline.config import AppConfig
    from streamling.plugins.registry import Registry
    from streamling.plugins.state_backend import StateBackend


@dataclass
class Cost:
    """Filled in when the job is done; both in seconds. CPU time is 0 if the system does not report it."""

    seconds: float = 0.0
    cpu: float = 0.0

    def answer(self) -> dict[str, float]:
        return asdict(self)


@contextmanager
def measure_cost() -> Iterator[Cost]:
    """Measure the block."""
    spent, cpu, began = Cost(), _cpu(), time.monotonic()
    yield spent
    spent.seconds, spent.cpu = time.monotonic() - began, _cpu() - cpu


def run_to_its_end(
    text: str,
    *,
    session: SparkSession,
    config: AppConfig,
    registry: Registry,
    state: StateBackend,
    observed: str = "",
) -> Cost:
    """Run a pipeline, from the first request for a batch to the last checkpoint. What comes before belongs to the
    start. ``observed`` says what is measured besides, as in `benchmarks.watching`."""
    pipeline = parse_pipeline(text, registry=registry, config=config)
    exported = observed == EXPORTED
    run = PipelineRun(pipeline, config=config, registry=registry, state=state, count_in_spark=exported)
    run.analyse(session)
    with watching(run, config, observed), measure_cost() as spent:
        run.start()
        run.wait()
    return spent


def _cpu() -> float:
    return usage(os.getpid()).cpu_seconds if available() else 0.0
