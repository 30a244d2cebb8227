"""Metrics of a real run, as they arrive at a receiver. Each process here starts a JVM, so one serves several tests."""

from __future__ import annotations

import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from streamling.observe.telemetry.catalogue import PREFIX, metrics
from tests.cli.conftest import PIPELINE, Project, Result
from tests.observe.telemetry.receiver import Receiver, receiving, tags_of, value_of

pytestmark = pytest.mark.spark

LABELLED = PIPELINE.replace(
    "    primary_key: id\ntrans", "    primary_key: id\n    telemetry: {labels: {team: data}}\ntrans"
)
CONFIG = """\
application_id: shop_v1
open_telemetry_metrics:
  batch_interval_secs: 0.1
  global_tags: "environment:test,image:shop:v1"
  metric_deny_list: checkpoint_acks_received
"""


@pytest.fixture(scope="module")
def pushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Receiver, Result]:
    project = Project(tmp_path_factory.mktemp("pushed"))
    project.write("pipeline.yaml", LABELLED)
    project.write("config.yaml", CONFIG)
    with receiving("http/protobuf") as receiver:
        result = project.command(
            "run", "pipeline.yaml", OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=receiver.url, POD_NAME="shop-0"
        )
    assert result.code == 0, result.err
    return receiver, result


def rows(receiver: Receiver, name: str) -> dict[str, int]:
    """The last total of each node."""
    return {tags["id"]: value for tags, value in receiver.points(name)}


def test_rows_in_and_out_are_counted_for_every_node(pushed):
    receiver, _ = pushed
    assert rows(receiver, "streamling_output_rows") == {"orders": 3, "large": 2, "screen": 2}
    assert rows(receiver, "streamling_input_rows") == {"large": 3, "screen": 2}


def test_series_of_a_node_have_its_identity_its_labels_and_the_global_tags(pushed):
    receiver, _ = pushed
    tags = next(tags for tags, _ in receiver.points("streamling_output_rows") if tags["id"] == "orders")
    expected = {
        "id": "orders",
        "topology_node_type": "source",
        "operator_type": "file",
        "service_instance_id": "shop_v1",
        "team": "data",
        "environment": "test",
        "image": "shop:v1",
    }
    assert expected.items() <= tags.items()


def test_the_resource_is_the_application_and_its_pod(pushed):
    receiver, _ = pushed
    assert receiver.resource == {
        "service.name": "streamling",
        "service.instance.id": "shop_v1",
        "k8s.pod.name": "shop-0",
    }


def test_differences_of_all_pushes_add_up_to_the_total(pushed):
    receiver, _ = pushed
    delta = "streamling_output_rows_delta"
    found: dict[str, int] = {}
    for push in receiver.pushes_of(delta):
        sum = receiver.metric(delta, push).sum
        assert sum.aggregation_temporality == otlp.AGGREGATION_TEMPORALITY_DELTA
        for point in sum.data_points:
            node = tags_of(point)["id"]
            found[node] = found.get(node, 0) + value_of(point)
    assert len(receiver.messages) > 1
    assert found == {"orders": 3, "large": 2, "screen": 2}


def test_denied_metrics_are_not_pushed(pushed):
    receiver, _ = pushed
    assert "streamling_checkpoint_epochs_succeeded" in receiver.names()
    assert "streamling_checkpoint_acks_received" not in receiver.names()


def test_everything_a_run_measures_is_in_the_list_of_metrics(pushed):
    receiver, _ = pushed
    assert receiver.names() <= {PREFIX + name for name in metrics()}


def test_pushes_print_nothing(pushed):
    _, result = pushed
    assert all(line[13:17] == "INFO" for line in result.err.splitlines())


def test_an_unavailable_receiver_is_one_warning_and_the_file_is_written(tmp_path):
    project = Project(tmp_path)
    with receiving("http/protobuf") as receiver:
        pass
    project.write("config.yaml", CONFIG + f"  ingestion_endpoint: {receiver.url}?token=hunter2\n")
    result = project.command("pipeline.yaml", "--metrics-file", "shop.prom")
    assert result.code == 0, result.err
    warnings = [line for line in result.err.splitlines() if line[13:17] != "INFO"]
    assert [line[13:] for line in warnings] == [
        f"WARN  cannot push metrics to {receiver.url}?[REDACTED]: Connection refused (the pipeline is not affected)"
    ]
    text = (tmp_path / "shop.prom").read_text()
    (line,) = [each for each in text.splitlines() if each.startswith("streamling_output_rows") and 'id="large"' in each]
    assert line.endswith(" 2")
    assert "hunter2" not in text + result.err
