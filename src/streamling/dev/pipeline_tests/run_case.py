"""Runs one case: the pipeline with its substitutes, from the first row to the last checkpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from streamling.connectors.http.options import HttpCall
from streamling.dev.pipeline_tests.clock import parse_instant
from streamling.dev.pipeline_tests.compare import Difference, compare_case
from streamling.dev.pipeline_tests.endpoints import Endpoints
from streamling.dev.pipeline_tests.load import LoadedCase
from streamling.dev.pipeline_tests.substitutes import Substitutes
from streamling.engine.launch.launcher import Launcher
from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.model import Pipeline
from streamling.pipeline.validation_errors import problem_at
from streamling.plugins.shared import SharedResources

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


#: Settings without which some sinks cannot be created. Nothing connects to these addresses.
_ADDRESSES: Mapping[str, str] = {"STREAMLING__KAFKA_SINK__SCHEMA_REGISTRY_URL": "http://registry.invalid"}


@dataclass
class CaseResult:
    """The outcome of one case."""

    case: LoadedCase
    differences: list[Difference] = field(default_factory=list)
    #: the error that ended the pipeline, unless the case expects it
    error: StreamlingError | None = None
    seconds: float = 0.0
    substitutes: Substitutes | None = None
    pipeline: Pipeline | None = None

    @property
    def passed(self) -> bool:
        return not self.differences and self.error is None

    @property
    def is_invalid(self) -> bool:
        """Whether the pipeline or the case could not be run because a file is wrong."""
        return isinstance(self.error, InvalidPipeline)


def run_case(
    case: LoadedCase, reader: CaseReader, session: Callable[[], SparkSession], endpoints: Endpoints
) -> CaseResult:
    """Run ``case``; errors of the user are part of the result."""
    session()  # the first cases wait for the JVM, which is not part of their time
    began = time.monotonic()
    result = CaseResult(case)
    try:
        launcher, pipeline = reader.read(case)
        result.pipeline = pipeline
        check_names(case, pipeline)
        now = None if case.now is None else parse_instant(case.now)
        result.substitutes = Substitutes(case, now)
        _run(launcher, result.substitutes.pipeline(pipeline, endpoints), result.substitutes, session)
        error = None
    except StreamlingError as failure:
        error = failure
    except Exception as failure:  # other cases can still run
        error = StreamlingError.wrap(failure, "an internal error")
    result.error = _unexpected(error, case, result)
    if result.substitutes is not None and result.error is None and result.pipeline is not None:
        result.differences += compare_case(case, result.pipeline, result.substitutes)
    result.seconds = time.monotonic() - began
    return result


class CaseReader:
    """Reads configurations and pipelines. Most cases of a file share them, and reading them takes 10 ms."""

    def __init__(self) -> None:
        # plugins are imported, which one thread at a time should do
        self._lock = threading.Lock()
        self._read: dict[tuple[object, ...], tuple[Launcher, Pipeline]] = {}

    def read(self, case: LoadedCase) -> tuple[Launcher, Pipeline]:
        """Return the configuration of ``case``, with its environment alone, and its pipeline."""
        file, timeout = case.file, case.case.timeout
        secrets = {f"STREAMLING__SECRETS__{name.upper()}": value for name, value in case.secrets.items()}
        env = {**_ADDRESSES, **case.env, **secrets}
        key = (file.path, timeout, *sorted(env.items()))
        with self._lock:
            if key not in self._read:
                launcher = Launcher.of(_config(file.content.config, file.path.parent.absolute(), env, timeout), env=env)
                self._read[key] = launcher, launcher.pipeline(str(file.pipeline))
            return self._read[key]


def _config(name: str | None, folder: Path, env: Mapping[str, str], timeout: float) -> AppConfig:
    config = load_config(name or "config", cwd=folder, env=env)
    return config.model_copy(
        update={
            "spark": config.spark.model_copy(update={"master": "local[*]"}),
            "startup_timeout_sec": 0.0,
            "checkpoint_timeout_sec": timeout,
            "shutdown_budget_secs": timeout,
            "num_records_before_stop": None,
            # the stubbed endpoints are on this machine
            "network": config.network.model_copy(update={"deny_private": False}),
        }
    )


def _run(launcher: Launcher, pipeline: Pipeline, substitutes: Substitutes, session: Callable[[], SparkSession]) -> None:
    registry = launcher.registry.substituting(substitutes.operator)
    launcher = replace(launcher, registry=registry, shared=SharedResources())
    with launcher.prepared(pipeline, lambda packages: session, in_memory=True) as run:
        run.start()
        run.wait()


def _unexpected(error: StreamlingError | None, case: LoadedCase, result: CaseResult) -> StreamlingError | None:
    """Return the error that the case does not expect; one that it expects but that did not occur is a difference."""
    expected = case.case.error
    if expected is None:
        return error
    if error is None:
        result.differences.append(Difference("error", [f"- {expected}", "  the pipeline ended without an error"]))
        return None
    if expected in error.with_causes:
        return None
    result.differences.append(Difference("error", [f"- {expected}", f"+ {error.with_causes}"]))
    return None


def check_names(case: LoadedCase, pipeline: Pipeline) -> None:
    """Raise `InvalidPipeline` if the case mentions a node that does not exist or is of another kind."""
    sources = {node.name for node in pipeline.sources}
    tables = {node.name for node in pipeline if not node.options.emits_rows}
    calls = {node.name for node in pipeline if isinstance(node.options, HttpCall)}
    nodes = {node.name for node in pipeline} - tables
    allowed = {
        "input": ("source", sources),
        "expect": ("sink, transform or source", nodes),
        "tables": ("dynamic table", tables),
        "expect_tables": ("dynamic table", tables),
        "http": ("handler or webhook", calls),
        "expect_requests": ("handler or webhook", calls),
    }
    problems: list[Problem] = []
    for field_, (what, names) in allowed.items():
        for name in getattr(case.case, field_):
            if name not in names:
                remedy = did_you_mean(
                    name, sorted(names), f"{what}s of the pipeline: {listing(sorted(names)) or 'none'}"
                )
                location = case.file.location("cases", case.name, field_, name)
                problems.append(problem_at(f"'{name}' is not a {what} of {pipeline.file}", location, remedy))
    if problems:
        raise InvalidPipeline(problems)


# ── many cases in one JVM ────────────────────────────────────────────────────────────────────────────────────────

#: Cases that run at the same time: more than cores, because a case also waits for its own threads.
_CONCURRENT_CASES = 4


def run_cases(
    cases: Sequence[LoadedCase], session: Callable[[], SparkSession], *, fail_fast: bool = False
) -> Iterator[CaseResult]:
    """Yield the results in the order of ``cases``; with ``fail_fast``, end after the first failure."""
    reader = CaseReader()
    with closing(Endpoints()) as endpoints, ThreadPoolExecutor(_CONCURRENT_CASES, thread_name_prefix="case") as pool:
        futures: list[Future[CaseResult]] = [pool.submit(run_case, case, reader, session, endpoints) for case in cases]
        try:
            for future in futures:
                result = future.result()
                yield result
                if fail_fast and not result.passed:
                    break
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
