"""Rows through a script, compared with the same function called by hand through `quickjs-rs` with batches of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec

import pyarrow as pa

from benchmarks.figures import Figure, Goal, Unit
from benchmarks.sizes import Sizes
from benchmarks.twins import quickjs_calls
from benchmarks.workbench import Scenario
from streamling.transforms.script.config import ScriptSettings
from streamling.transforms.script.console import Console
from streamling.transforms.script.runner import Runner
from streamling.transforms.script.transform import engine_for, limits_of

#: rows per call by hand: what a sandbox of 64 MiB can hold
_BATCH = 5_000
#: fewer rows than in the SQL scenarios, because a script is slower
_SHARE = 40
_FUNCTION = "(row) => { row.amount = row.amount * 2; row.name = row.name.toUpperCase(); return row; }"
_GOALS = {"quickjs": Goal(bound=0.1, ratio=0.8), "v8": Goal(bound=0.25)}


class Script(Scenario):
    """Measures CPU time, not elapsed time: the goal is about one core."""

    title = "script"

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return sizes.rounds * (2 + _has_v8())

    def figures(self) -> list[Figure]:
        rows = _rows(max(_BATCH, self._bench.sizes.rows // _SHARE))
        by_hand = [json.dumps(rows.slice(at, _BATCH).to_pylist()) for at in range(0, rows.num_rows, _BATCH)]
        ours = {"quickjs": _runner(rows.schema, "quickjs")} | ({"v8": _runner(rows.schema, "v8")} if _has_v8() else {})
        measures = {engine: partial(self._rate, engine, rows, partial(ours[engine].run, rows)) for engine in ours}
        twin = partial(quickjs_calls.run, _FUNCTION, by_hand)
        found = self._bench.alternate(**measures, by_hand=partial(self._rate, "quickjs-rs by hand", rows, twin))
        return [
            Figure(
                self.title,
                f"five columns through {engine}",
                Unit.MILLION_ROWS,
                found[engine],
                found["by_hand"],
                compared_with="quickjs-rs, JSON to JSON",
                goal=_GOALS[engine],
            )
            for engine in ours
        ]

    def _rate(self, name: str, rows: pa.RecordBatch, work: Callable[[], object]) -> float:
        """Return million rows per second of CPU time."""
        self._bench.step(f"script: {name}")
        began = time.process_time()
        work()
        return float(rows.num_rows / (time.process_time() - began) / 1e6)


def _has_v8() -> bool:
    return find_spec("py_mini_racer") is not None


def _runner(schema: pa.Schema, engine: str) -> Runner:
    config = ScriptSettings.model_validate({"engine": engine})
    return Runner(
        _FUNCTION,
        inputs=schema,
        outputs=schema,
        copied="_gs_op",
        engine=engine_for(config),
        limits=limits_of(config),
        console=Console(lambda level, line: None),
    )


def _rows(count: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": [f"user {number}" for number in range(count)],
            "amount": [number * 1.5 for number in range(count)],
            "country": [("DE", "FR", "JP")[number % 3] for number in range(count)],
            "active": [number % 7 != 0 for number in range(count)],
        }
    )
