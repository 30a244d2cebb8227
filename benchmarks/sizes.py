"""The sizes of the measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The sizes of the measurements."""

    #: runs of each kind that count
    repetitions: int
    #: warm-up runs that do not count: caches are cold
    warm_ups: int
    triggers: int
    settle_seconds: float
    idle_seconds: float
    #: rows in the files
    rows: int
    #: rows per batch of the stream, and number of batches
    rate_rows: int
    rate_batches: int
    #: messages in the topics
    records: int
    #: rows written to Postgres
    upserts: int
    #: messages that pass while memory is sampled
    memory_records: int
    #: delay of the slow sink, and its number of batches
    slow_seconds: float
    slow_batches: int
    #: rows in the ClickHouse table that is read, and in the one that is read while memory is sampled
    table_rows: int = 2000
    large_table_rows: int = 20_000
    #: rows sent through an HTTP endpoint
    requests: int = 200
    #: how long messages are produced at each rate
    latency_seconds: float = 1.0
    #: how long they are produced at the highest rate before: code that runs often is compiled by then
    rate_warm_up: float = 0.5
    #: idle pipelines of one server, those that get records, for how long, and new ones
    fleet_pipelines: int = 5
    fleet_active: int = 3
    fleet_seconds: float = 2
    fleet_deploys: int = 2
    #: numbers of pipelines that share a topic, and how long it gets messages, before and while they are measured
    shared_pipelines: tuple[int, ...] = (1, 3)
    shared_warm_up: float = 1
    shared_seconds: float = 2
    #: cases of `streamling test`
    cases: int = 25
    #: warm-up runs of the pipeline before rows are written to Postgres
    upsert_warm_ups: int = 0

    @property
    def rounds(self) -> int:
        return self.rounds_for(1)

    def rounds_for(self, times: int) -> int:
        """Return the number of rounds if ``times`` as many count."""
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
    table_rows=12_000_000,
    large_table_rows=20_000_000,
    requests=20_000,
    latency_seconds=20,
    rate_warm_up=15,
    fleet_pipelines=500,
    fleet_active=200,
    fleet_seconds=30,
    fleet_deploys=20,
    shared_pipelines=(1, 10, 100, 1_000),
    shared_warm_up=20,
    shared_seconds=30,
    cases=200,
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
    table_rows=400_000,
    large_table_rows=2_000_000,
    requests=5_000,
    latency_seconds=5,
    rate_warm_up=5,
    fleet_pipelines=20,
    fleet_active=10,
    fleet_seconds=5,
    fleet_deploys=5,
    shared_pipelines=(1, 10, 50),
    shared_warm_up=5,
    shared_seconds=10,
    cases=50,
)
