"""One scrape for all pipelines of a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from streamling.observe.telemetry.metrics import MetricStore, Series
from streamling.serve.fleet_metrics import MeasuredPipeline, Selection, fleet_exposition, fleet_series
from streamling.serve.lifecycle import Actual, State
from streamling.serve.model import PipelineKey
from streamling.serve.runtime import Measures
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.server import Client

A, B = PipelineKey("shop", "a"), PipelineKey("shop", "b")


def parsed(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def scrape(client: Client) -> dict[str, Metric]:
    answer = client.request("GET", "/metrics", prefix="")
    assert answer.status == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return parsed(answer.text)


def values(families: dict[str, Metric], name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The samples of a family by namespace, pipeline and other labels."""
    return {
        tuple(sample.labels[label] for label in ("namespace", "pipeline", *labels)): sample.value
        for sample in families[name].samples
    }


# ── a server ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def two_pipelines(clients: dict[str, Client], server, orders: Path):
    """``fleet/shared`` in the process of the server, ``team/alone`` in one of its own; both have read five rows."""
    write_csv(orders / "1.csv", range(5))
    admin = clients["admin"]
    for namespace, name, isolation in (("fleet", "shared", "shared"), ("team", "alone", "process")):
        body = {"definition": csv_to_print(f"{orders}/*.csv", name), "isolation": isolation}
        created = admin.request("PUT", f"/pipelines/{namespace}/{name}", body, {"If-None-Match": "*"})
        assert created.status == 201, created.text
    for path in ("fleet/shared", "team/alone"):
        server.eventually(lambda path=path: sum(admin.get(f"/pipelines/{path}").json["rows"].values()) == 5)
        server.eventually(lambda path=path: admin.get(f"/pipelines/{path}").json["ready"])
    yield
    for path in ("fleet/shared", "team/alone"):
        admin.request("DELETE", f"/pipelines/{path}?state=delete")
        server.eventually(lambda path=path: admin.get(f"/pipelines/{path}").status == 404)


@pytest.mark.spark
def test_one_scrape_has_all_pipelines_that_the_token_sees(clients: dict[str, Client], two_pipelines) -> None:
    families = scrape(clients["viewer"])
    rows = values(families, "streamling_output_rows", "id")
    assert rows["fleet", "shared", "shared"] == rows["team", "alone", "alone"] == 5
    states = values(families, "streamling_pipeline_state", "state")
    assert states["fleet", "shared", "running"] == states["team", "alone", "running"] == 1
    for name in (
        *("pipeline_ready", "pipeline_restarts", "pipeline_cpu_seconds", "pipeline_checkpoint_age_seconds"),
        *("pipeline_series_left_out", "pipeline_series_unavailable"),
    ):
        assert {("fleet", "shared"), ("team", "alone")} <= values(families, f"streamling_{name}").keys()
    assert families["streamling_elapsed_compute_milliseconds"].type == "histogram"
    assert {("team", "alone"), ("fleet", "shared")} <= values(
        families, "streamling_checkpoint_epoch_duration_milliseconds"
    ).keys()
    seen = {sample.labels["namespace"] for family in scrape(clients["team"]).values() for sample in family.samples}
    assert seen == {"team"}


def test_a_scrape_needs_a_token(server) -> None:
    assert Client(server.address).request("GET", "/metrics", prefix="").status == 401
    assert Client(server.address, "wrong-token-0123456789").request("GET", "/metrics", prefix="").status == 401


# ── bounds ───────────────────────────────────────────────────────────────────────────────────────────────────


def series(count: int = 1, name: str = "own_rows", **tags: str) -> list[Series]:
    store = MetricStore()
    for number in range(count):
        store.of("out").count(name, tags={"number": str(number), **tags})
    return store.snapshot()


def test_a_pipeline_has_a_number_of_series_and_all_of_them_have_one() -> None:
    selection = Selection(per_pipeline=3, left=5)
    assert [len(part) if isinstance(part, list) else part for part in selection.of_pipeline(A, series(4))] == [3, 1]
    assert [len(part) if isinstance(part, list) else part for part in selection.of_pipeline(B, series(4))] == [2, 2]


class Silent:
    """A loaded pipeline whose process hangs."""

    def metrics(self, timeout: float) -> None:
        return None


def test_what_is_left_out_or_does_not_answer_is_counted() -> None:
    silent = MeasuredPipeline(A, Actual(State.RUNNING), Measures(lag=7), Silent())  # type: ignore[arg-type]
    families = parsed(fleet_exposition([silent]))
    assert values(families, "streamling_pipeline_series_unavailable") == {A: 1}
    assert values(families, "streamling_pipeline_series_left_out") == {A: 0}
    assert values(families, "streamling_pipeline_lag") == {A: 7}
    assert next(fleet_series([silent], Selection(left=0))).name == "pipeline_state"


def test_a_pipeline_cannot_pretend_to_be_another_one() -> None:
    (found,) = Selection().of_pipeline(A, series(namespace="bank", pipeline="b", team="x" * 1000))[0]
    assert (found.tags["namespace"], found.tags["pipeline"]) == ("shop", "a")
    assert len(found.tags["team"]) < 1000


def test_a_metric_of_another_kind_does_not_break_the_answer() -> None:
    store = MetricStore()
    store.of("out").gauge("streamling_input_rows_total".removeprefix("streamling_"), 1)
    assert Selection().of_pipeline(A, store.snapshot()) == ([], 1)
