"""Start-up with Kafka: from the start of the process to the first row in Postgres."""

from __future__ import annotations

import time
from dataclasses import dataclass

from benchmarks.children import STREAMLING, RunningProcess, running
from benchmarks.figures import Figure, Goal, Unit
from benchmarks.records import COLUMNS
from benchmarks.sizes import Sizes
from benchmarks.startup import phases_of
from benchmarks.workbench import Scenario

_GOAL = Goal(bound=6.0)
_RECORDS = 1000
_LOOK_SECONDS = 0.01
PHASES = "a start from Kafka to Postgres"

_PIPELINE = """
sources:
  changes: {{type: kafka, topic: {topic}, primary_key: id}}
transforms:
  shaped: {{type: sql, primary_key: id, sql: "SELECT {columns} FROM changes"}}
sinks:
  rows: {{type: postgres, from: shaped, schema: public, table: {table}}}
"""


@dataclass(frozen=True)
class _Start:
    first_row: float
    report: str


class ColdStart(Scenario):
    """A pipeline as a user runs it, with start-up archive and Spark packages in place."""

    title = "kafka start-up"
    needs_services = True

    @staticmethod
    def steps(sizes: Sizes, has_pyspark: bool) -> int:
        return 1 + sizes.rounds

    def figures(self) -> list[Figure]:
        bench = self._bench
        bench.step("kafka start-up: a topic")
        topic = bench.topic(_RECORDS)
        starts = bench.alternate(ours=lambda: self._start(topic))["ours"]
        middle = sorted(starts, key=lambda start: start.first_row)[len(starts) // 2]
        bench.phases[PHASES] = phases_of(middle.report)
        first = [start.first_row for start in starts]
        return [Figure(self.title, "first row in Postgres", Unit.SECONDS, first, goal=_GOAL)]

    def _start(self, topic: str) -> _Start:
        bench = self._bench
        bench.step("kafka start-up: first row in Postgres")
        place, table = bench.place("kafka-start"), bench.services.table()
        text = _PIPELINE.format(topic=topic, table=table, columns=", ".join(COLUMNS))
        (place / "pipeline.yaml").write_text(text, encoding="utf-8")
        began = time.monotonic()
        command = [*STREAMLING, "run", "pipeline.yaml", "--timings"]
        # a separate consumer group: that of the previous start has read everything
        env = {**bench.services_env, "STREAMLING__APPLICATION_ID": table}
        with running(command, cwd=place, env=env) as process:
            self._wait_for_rows(process, table)
            first_row = time.monotonic() - began
        return _Start(first_row, (place / "stderr").read_text(encoding="utf-8"))

    def _wait_for_rows(self, process: RunningProcess, table: str) -> None:
        import psycopg
        from psycopg import sql

        query = sql.SQL("SELECT EXISTS (SELECT FROM {})").format(sql.Identifier(table))
        with psycopg.connect(self._bench.services.dsn, autocommit=True) as connection:
            while True:
                try:
                    found = connection.execute(query).fetchone()
                except psycopg.errors.UndefinedTable:
                    found = None  # the sink creates it
                if found and found[0]:
                    return
                process.check()
                time.sleep(_LOOK_SECONDS)
