from __future__ import annotations

import pytest

from streamling.observe.telemetry.metrics import MetricStore
from streamling.observe.telemetry.prometheus import exposition, family
from streamling.observe.telemetry.reporting import MetricsFile
from streamling.redaction import add_secrets


def test_counters_gauges_and_histograms_as_text() -> None:
    store = MetricStore()
    store.add_tags("b", {"id": "b"})
    store.add_tags("a", {"id": "a"})
    store.of("b").count("seen", 2)
    store.of("a").count("seen", 3)
    store.of("a").latency("took", 0.1)
    store.of("a").latency("took", 0.3005)
    store.of("a").latency("took", 4000)
    store.of("").gauge("depth", 2.5)
    assert exposition(store.snapshot()) == (
        "# TYPE streamling_depth gauge\n"
        "streamling_depth 2.5\n"
        "# TYPE streamling_seen_total counter\n"
        'streamling_seen_total{id="a"} 3\n'
        'streamling_seen_total{id="b"} 2\n'
        "# TYPE streamling_took_milliseconds histogram\n"
        'streamling_took_milliseconds_bucket{id="a",le="100"} 1\n'
        'streamling_took_milliseconds_bucket{id="a",le="250"} 1\n'
        'streamling_took_milliseconds_bucket{id="a",le="500"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="1000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="2500"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="5000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="10000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="30000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="60000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="300000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="900000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="1800000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="3600000"} 2\n'
        'streamling_took_milliseconds_bucket{id="a",le="+Inf"} 3\n'
        'streamling_took_milliseconds_sum{id="a"} 4000400.5\n'
        'streamling_took_milliseconds_count{id="a"} 3\n'
    )


def test_secrets_are_masked_in_values_of_labels_only() -> None:
    store = MetricStore()
    store.of("x").count("seen", 1, {"customer": "customer", "note": "for customer 9"})
    add_secrets(["customer"])
    assert exposition(store.snapshot()).splitlines()[1] == (
        'streamling_seen_total{customer="**********",note="for ********** 9"} 1'
    )


def test_the_order_of_recording_does_not_show() -> None:
    one, other = MetricStore(), MetricStore()
    names = ["seen", "left", "new"]
    for store, order in ((one, names), (other, names[::-1])):
        for name in order:
            store.of("x").count(name, 1, {"kind": "i"})
            store.of("x").count(name, 1, {"kind": "d"})
    assert exposition(one.snapshot()) == exposition(other.snapshot())


def test_what_prometheus_would_misread_is_escaped() -> None:
    store = MetricStore()
    store.of("x").count("my.plugin-seen", 1, {"a.b": 'C:\\x "y"\nz', "1st": "ü\t"})
    assert exposition(store.snapshot()).splitlines()[1] == (
        'streamling_my_plugin_seen_total{_1st="ü\t",a_b="C:\\\\x \\"y\\"\\nz"} 1'
    )


def test_extra_tags_are_on_every_series_that_lacks_them() -> None:
    store = MetricStore()
    store.of("x").gauge("depth", 1, {"service_instance_id": "own"})
    store.of("x").gauge("width", 1)
    text = exposition(store.snapshot(), {"service_instance_id": "app"})
    assert 'streamling_depth{service_instance_id="own"} 1' in text
    assert 'streamling_width{service_instance_id="app"} 1' in text


def test_known_metrics_have_a_description() -> None:
    store = MetricStore()
    store.of("x").count("input_rows")
    assert exposition(store.snapshot()).startswith(
        "# HELP streamling_input_rows_total Rows received by the node.\n# TYPE streamling_input_rows_total counter\n"
    )


@pytest.mark.parametrize(
    ("value", "text"), [(float("nan"), "NaN"), (float("inf"), "+Inf"), (float("-inf"), "-Inf"), (1e15, "10" + "0" * 14)]
)
def test_special_numbers(value: float, text: str) -> None:
    store = MetricStore()
    store.of("x").gauge("depth", value)
    assert exposition(store.snapshot()).splitlines()[-1] == f"streamling_depth {text}"


def test_a_suffix_is_not_doubled() -> None:
    assert family("seen_total", "counter") == "streamling_seen_total"


def test_nothing_measured_is_an_empty_text() -> None:
    assert exposition([]) == ""


def test_no_secret_gets_into_the_file(tmp_path):
    add_secrets(["S3cret/of a label"])
    store = MetricStore()
    store.of("out").count("rows", 1, {"url": "http://h/?x=S3cret%2Fof%20a%20label&y=1"})
    MetricsFile(tmp_path / "x.prom", store, {"pod": "S3cret/of a label"})(1.0)
    text = (tmp_path / "x.prom").read_text()
    assert 'pod="**********"' in text
    assert "S3cret" not in text
