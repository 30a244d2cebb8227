"""How much is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    #: runs of each kind that count
    repetitions: int
    #: runs before, which do not: they find cold caches
    warm_ups: int
    triggers: int
    settle_seconds: float
    idle_seconds: float
    #: of the files
    rows: int
    #: of one batch of the stream, and how many batches
    rate_rows: int
    rate_batches: int
    #: messages of the topics
    records: int
    #: rows written to Postgres
    upserts: int
    #: messages that pass while memory is watched
    memory_records: int
    #: how slow the slow sink is, and how many batches it takes
    slow_seconds: float
    slow_batches: int
    #: rows that go through an HTTP endpoint
    requests: int = 200
    #: runs of the pipeline that only warm up before rows go to Postgres
    upsert_warm_ups: int = 0

    @property
    def rounds(self) -> int:
        return self.rounds_for(1)

    def rounds_for(self, times: int) -> int:
        """When ``times`` as many count."""
        return self.warm_ups + times * self.repetitions


FULL = Sizes(
    repetitions=5,
    warm_ups=1,
    triggers=200,
    settle_seconds=8,
    idle_seconds=20,
    rows=4_000_000,
    rate_rows=4_000_000,
    rate_batches=8,
    records=5_000_000,
    upserts=1_000_000,
    memory_records=10_000_000,
    slow_seconds=2,
    slow_batches=40,
    requests=20_000,
    upsert_warm_ups=4,
)
QUICK = Sizes(
    repetitions=2,
    warm_ups=1,
    triggers=40,
    settle_seconds=2,
    idle_seconds=4,
    rows=400_000,
    rate_rows=1_000_000,
    rate_batches=5,
    records=500_000,
    upserts=200_000,
    memory_records=1_000_000,
    slow_seconds=0.5,
    slow_batches=5,
    requests=5_000,
)
