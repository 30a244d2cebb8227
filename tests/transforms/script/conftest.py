"""Both engines, compiled once: every test of this folder that uses ``scripts`` runs on each of them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from streamling.transforms.script.console import Console
from streamling.transforms.script.engine import Limits, ScriptEngine
from streamling.transforms.script.quickjs import QuickJs
from streamling.transforms.script.runner import Runner
from streamling.transforms.script.typescript import strip_types
from streamling.transforms.script.v8 import V8

LIMITS = Limits(64 << 20, 60)
#: for scripts that are expected to exceed them
TIGHT = Limits(32 << 20, 0.5)


class Scripts:
    """Runs scripts over small batches, as a script transform does."""

    def __init__(self, engine: ScriptEngine, limits: Limits) -> None:
        self.engine = engine
        self.limits = limits
        self.lines: list[str] = []
        self.levels: list[int] = []

    def _log(self, level: int, line: str) -> None:
        self.levels.append(level)
        self.lines.append(line)

    def runner(self, text: str, inputs: pa.Schema, outputs: pa.Schema) -> Runner:
        return Runner(
            text,
            inputs=inputs,
            outputs=outputs,
            copied="_gs_op",
            engine=self.engine,
            limits=self.limits,
            console=Console(self._log),
        )

    def batch(self, text: str, batch: pa.RecordBatch, outputs: pa.Schema | None = None) -> pa.RecordBatch:
        return self.runner(text, batch.schema, outputs or batch.schema).run(batch)

    def rows(self, text: str, rows: list[dict], schema: dict[str, pa.DataType] | None = None, ts: bool = False) -> list:
        given = pa.RecordBatch.from_pylist(rows)
        outputs = None if schema is None else pa.schema([pa.field(name, schema[name]) for name in schema])
        return self.batch(strip_types(text) if ts else text, given, outputs).to_pylist()


@pytest.fixture(scope="session")
def engines() -> Callable[[str, Limits], ScriptEngine]:
    made: dict[tuple[str, Limits], ScriptEngine] = {}

    def get(name: str, limits: Limits) -> ScriptEngine:
        if (name, limits) not in made:
            made[name, limits] = QuickJs(limits) if name == "quickjs" else V8(limits)
        return made[name, limits]

    return get


@pytest.fixture(params=["quickjs", "v8"])
def engine(request) -> str:
    return request.param


@pytest.fixture
def scripts(engine, engines) -> Scripts:
    return Scripts(engines(engine, LIMITS), LIMITS)


@pytest.fixture
def tight(engine, engines) -> Scripts:
    """With so little time and memory that a test does not wait long for the limits."""
    return Scripts(engines(engine, TIGHT), TIGHT)
