"""How many refused requests the audit log gets."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime

from streamling.pipeline.config import AppConfig
from streamling.serve.audit import AuditLog
from streamling.serve.catalogue import open_database
from streamling.serve.model import PipelineKey
from streamling.serve.refusals import Refusals
from tests.harness.pipelines import eventually

KEY = PipelineKey("team", "orders")


def test_the_first_refusal_of_each_client_and_status_is_recorded_and_the_others_are_counted(tmp_path):
    now = 0.0
    with closing(
        open_database(AppConfig(state_backend={"sqlite": {"database_path": tmp_path / "state.db"}}))
    ) as database:
        audit = AuditLog(database, lambda: datetime.now(UTC))
        refusals = Refusals(audit, lambda: now)

        def recorded() -> list[tuple[str, str]]:
            return [(entry.actor, entry.detail) for entry in reversed(audit.newest(10))]

        for _ in range(1000):
            refusals.record("shop", 404, KEY, "GET /a")
            refusals.record("unknown", 401, PipelineKey("", ""), "GET " + "/" * 10_000)
        first = [("shop", "404 GET /a"), ("unknown", "401 GET " + "/" * 196)]
        eventually(lambda: recorded() == first)
        now = 601.0
        refusals.record("shop", 404, KEY, "GET /b")
        eventually(lambda: recorded() == [*first, ("shop", "404 GET /b, and 999 others since the last entry")])
