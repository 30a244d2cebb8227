"""Random streams against a model that processes one row after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.engine.state.memory import MemoryState
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics
from streamling.sql.plan import ROW
from streamling.transforms.dynamic_table.transform import DynamicTableTransform, DynamicTableTransformOptions
from tests.transforms.dynamic_table.pipelines import run_pipeline

SEEDS = range(300)

Row = dict[str, Any]

# ── checks of every kind, in a pipeline ─────────────────────────────────────────────────────────────────────

PIPELINE = """
sources:
  s: {type: given, primary_key: id}
transforms:
  seen: {type: dynamic_table, backend_type: InMemory, backend_entity_name: seen, sql: SELECT v FROM s}
  marked:
    type: dynamic_table
    backend_type: InMemory
    backend_entity_name: marked
    sql: "SELECT upper(w) FROM s WHERE v IS NOT NULL AND NOT w LIKE '%x'"
  first: {type: sql, primary_key: id, sql: "SELECT id FROM s WHERE NOT dynamic_table_check('seen', v)"}
  checked:
    type: sql
    primary_key: id
    sql: |
      SELECT id,
             dynamic_table_check('seen', w) AS plain,
             dynamic_table_check('seen', tags) AS any_of,
             CASE WHEN dynamic_table_check('marked', upper(v)) THEN 'marked' ELSE 'not' END AS chosen,
             dynamic_table_check('seen', CASE WHEN dynamic_table_check('marked', upper(w)) THEN v ELSE w END) AS nested
      FROM s
sinks:
  passed: {type: memory, from: first}
  all: {type: memory, from: checked}
"""


def stream(seed: int) -> list[Row]:
    """Return rows over a small alphabet for each seed: no seed finds what another one appends."""
    chance = random.Random(seed)
    letters = [f"{seed}{letter}" for letter in "abcx"]

    def value() -> str | None:
        return None if chance.random() < 0.15 else chance.choice(letters)

    def tags() -> list[str | None] | None:
        return None if chance.random() < 0.15 else [value() for _ in range(chance.randrange(4))]

    return [{"v": value(), "w": value(), "tags": tags()} for _ in range(chance.randrange(1, 25))]


def modelled(rows: Sequence[Row]) -> Iterator[Row]:
    """Process one row after the other: look up, then append."""
    seen: set[str] = set()
    marked: set[str] = set()

    def ask(table: set[str], value: str | None) -> bool | None:
        return None if value is None else value in table

    for row in rows:
        v, w, tags = row["v"], row["w"], row["tags"]
        upper = None if w is None else w.upper()
        yield {
            "id": row["id"],
            "plain": ask(seen, w),
            "any_of": None if tags is None else any(tag in seen for tag in tags if tag is not None),
            "chosen": "marked" if v is not None and v.upper() in marked else "not",
            "nested": ask(seen, v if upper in marked else w),
            "passes": ask(seen, v) is False,
        }
        if v is not None:
            seen.add(v)
            if w is not None and not w.endswith("x"):
                marked.add(w.upper())


@pytest.mark.spark
def test_a_pipeline_gives_the_result_of_one_row_at_a_time(spark):
    """Merge all seeds into one stream, split at random; the order within each is kept."""
    chance = random.Random(len(SEEDS))
    streams = {seed: stream(seed) for seed in SEEDS}
    turns = [seed for seed, rows in streams.items() for _ in rows]
    chance.shuffle(turns)
    waiting = {seed: iter(rows) for seed, rows in streams.items()}
    merged = []
    for number, seed in enumerate(turns):
        row = next(waiting[seed])
        row["id"] = number
        merged.append(row)
    cuts = sorted(chance.sample(range(len(merged)), 4))
    batches = [merged[start:end] for start, end in zip([0, *cuts], [*cuts, len(merged)], strict=True)]
    run = run_pipeline(spark, PIPELINE, {"s": batches}, checkpoint_interval_sec=0.5)
    answers = {row["id"]: row for row in collected_rows(run, "all").drop(["_gs_op"]).to_pylist()}
    passed = set(collected_rows(run, "passed").column("id").to_pylist())
    for seed, rows in streams.items():
        expected = list(modelled(rows))
        found = [{**answers[row["id"]], "passes": row["id"] in passed} for row in rows]
        assert found == expected, f"seed {seed}"


# ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────────


class Crash(Exception):
    """The process ends here, without notice."""


class Process:
    """Run a deduplicating pipeline by hand, from a start to its end or a crash; it shares the state, the database and
    the delivered rows with the next one."""

    def __init__(self, chance: random.Random, rows: Sequence[str], schema: Any, cached: bool) -> None:
        self._chance = chance
        self._rows = rows
        self._settings = schema.settings
        self._cached = cached
        self._state = MemoryState()
        #: what a sink has received and not flushed, and what is durable there
        self._taken: list[int] = []
        self.delivered: list[int] = []

    def run(self) -> None:
        table, self._taken = self._table(), []
        try:
            table.open()
            self._maybe_crash()
            self._flow(table, (self._state.get("position") or 0))
        finally:
            table.close()  # a dead process closes its connections too

    def _flow(self, table: DynamicTableTransform, at: int) -> None:
        epoch = 0
        while at < len(self._rows):
            size = self._chance.randrange(1, 6)
            self._batch(table, at, self._rows[at : at + size], epoch)
            at += size
            self._maybe_crash()
            if self._chance.random() < 0.5 or at >= len(self._rows):
                epoch += 1
                self._checkpoint(table, epoch, at)

    def _batch(self, table: DynamicTableTransform, at: int, values: Sequence[str], epoch: int) -> None:
        numbers = pa.array(range(len(values)), pa.int64())
        table.before_emit(pa.table({"v": pa.array(values), ROW: numbers}), epoch)
        try:
            self._maybe_crash()
            known = table.contains(pa.array(values), numbers).to_pylist()
            if self._chance.random() < 0.05:
                raise OSError("the source restarts, the batch is replayed")
            self._taken += [at + place for place, is_known in enumerate(known) if not is_known]
        except OSError:
            table.after_emit(complete=False)
            self._batch(table, at, values, epoch)
        else:
            table.after_emit(complete=True)

    def _checkpoint(self, table: DynamicTableTransform, epoch: int, at: int) -> None:
        entries = table.marker(epoch)
        self._maybe_crash()
        self.delivered += self._taken
        self._taken = []
        self._maybe_crash()
        self._state.put_many({"position": at, **entries})
        self._maybe_crash()
        table.finalized(epoch)
        self._maybe_crash()

    def _maybe_crash(self) -> None:
        if self._chance.random() < 0.08:
            raise Crash

    def _table(self) -> DynamicTableTransform:
        fields: dict[str, Any] = {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "t"}
        if self._cached:
            fields |= {"cache": True, "time_column": "updated_at", "cache_refresh_debounce_ms": 0}
        return DynamicTableTransform(
            NodeContext(
                name="seen",
                options=DynamicTableTransformOptions.model_validate(fields),
                config=AppConfig(dynamic_table_backend={"postgres": self._settings, "max_batch_size": 2}),
                state=self._state,
                metrics=NoopMetrics(),
            )
        )


@pytest.mark.services
@pytest.mark.soak
def test_kills_neither_lose_nor_hide_nor_duplicate_a_row(schema):
    crashes = 0
    for seed in SEEDS:
        chance = random.Random(seed)
        values = [f"{seed}:{chance.randrange(6)}" for _ in range(chance.randrange(1, 20))]
        process = Process(chance, values, schema, cached=seed % 2 == 0)
        while True:
            try:
                process.run()
                break
            except Crash:
                crashes += 1
        firsts = {values.index(value) for value in values}
        assert set(process.delivered) == firsts, f"seed {seed}"
        assert sorted(set(values)) == [v for v in schema.values() if v.startswith(f"{seed}:")], f"seed {seed}"
    assert crashes > len(SEEDS) / 2, "too few of them crash"
