"""How many refused requests the audit log gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime

import pytest

from streamling.pipeline.config import AppConfig
from streamling.serve.audit import AuditLog
from streamling.serve.catalogue import open_database
from streamling.serve.model import PipelineKey
from streamling.serve.refusals import Refusals
from tests.harness.pipelines import eventually

KEY = PipelineKey("team", "orders")
NAMESPACES = ("team", "bank")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audit(tmp_path) -> Iterator[AuditLog]:
    config = AppConfig(state_backend={"sqlite": {"database_path": tmp_path / "state.db"}})
    with closing(open_database(config)) as database:
        yield AuditLog(database, lambda: datetime.now(UTC))


@pytest.fixture
def refusals(audit, clock) -> Refusals:
    return Refusals(audit, NAMESPACES.__contains__, clock)


@pytest.fixture
def recorded(audit) -> Callable[[], list[tuple[str, str, str]]]:
    """Return client, namespace and text of the entries, oldest first."""
    return lambda: [(entry.actor, entry.namespace, entry.detail) for entry in reversed(audit.newest(100))]


def test_the_first_refusal_of_each_client_and_status_is_recorded_and_the_others_are_counted(refusals, clock, recorded):
    for _ in range(1000):
        refusals.record("shop", 404, KEY, "GET /a")
        refusals.record("unknown", 401, PipelineKey("", ""), "GET " + "/" * 10_000)
    first = [("shop", "team", "404 GET /a"), ("unknown", "", "401 GET " + "/" * 196)]
    eventually(lambda: recorded() == first)
    clock.now = 601.0
    refusals.record("shop", 404, KEY, "GET /b")
    eventually(lambda: recorded() == [*first, ("shop", "team", "404 GET /b, and 999 others since the last entry")])


def test_who_probes_one_namespace_does_not_hide_that_he_probes_another_one(refusals, recorded):
    for namespace in ("team", "bank", "team", "bank"):
        refusals.record("shop", 404, PipelineKey(namespace, "orders"), f"GET /{namespace}")
    refusals.record("last", 404, KEY, "GET /last")
    eventually(lambda: ("last", "team", "404 GET /last") in recorded())
    assert recorded()[:-1] == [("shop", "team", "404 GET /team"), ("shop", "bank", "404 GET /bank")]


def test_namespaces_that_a_client_has_made_up_cannot_fill_the_log(refusals, recorded):
    for number in range(1000):
        refusals.record("shop", 404, PipelineKey(f"made-up-{number}", "x" * 10_000), "GET /x")
    refusals.record("last", 404, KEY, "GET /last")
    eventually(lambda: ("last", "team", "404 GET /last") in recorded())
    assert recorded()[:-1] == [("shop", "made-up-0", "404 GET /x")]
