"""Runs many cases in one JVM, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

from streamling.dev.pipeline_tests.endpoints import Endpoints
from streamling.dev.pipeline_tests.load import LoadedCase
from streamling.dev.pipeline_tests.run_case import CaseReader, CaseResult, run_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
