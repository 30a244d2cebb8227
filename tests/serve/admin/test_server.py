"""When and where the admin API of a run listens."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from urllib.request import urlopen

import pytest

from streamling.pipeline.config import AppConfig
from streamling.serve.admin.registry import running_pipelines
from streamling.serve.admin.server import admin_server, listen
from tests.engine.dataflow.test_sql_flows import pipeline
from tests.harness.pipelines import Bench, eventually, finish
from tests.serve.admin.serving import serving

TEXT = pipeline("", "out: {type: ledger, from: numbers}", "numbers: {type: numbers, ends: false, primary_key: id}")


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which somebody else listens."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_it_listens_on_loopback_unless_admin_api_host_says_otherwise():
    with listen(AppConfig(admin_api_port=0)) as found:
        assert found.getsockname()[0] == "127.0.0.1"
    with listen(AppConfig(admin_api_port=0, admin_api_host="0.0.0.0", admin_api_token="t")) as found:
        assert found.getsockname()[0] == "0.0.0.0"


def test_a_second_run_takes_another_port_unless_admin_api_port_is_set(taken):
    default = AppConfig(admin_api_port=taken)
    default.model_fields_set.discard("admin_api_port")
    with listen(default) as found:
        assert found.getsockname()[1] not in (0, taken)
    with pytest.raises(OSError, match="in use"):
        listen(AppConfig(admin_api_port=taken))
    with listen(AppConfig(admin_api_port=0)) as other:
        free = other.getsockname()[1]
    with listen(AppConfig(admin_api_port=free)) as found:
        assert found.getsockname()[1] == free


@pytest.mark.spark
def test_a_run_serves_its_api_and_can_be_found(spark, tmp_path):
    bench, config = Bench(spark), AppConfig(admin_api_port=0, cache_dir=tmp_path, application_id="shop")
    run = bench.prepare(TEXT)
    with admin_server(run, spark, config) as server:
        run.on_first_rows(server.first_rows)
        run.start()
        eventually(lambda: running_pipelines(tmp_path), 30)
        (found,) = running_pipelines(tmp_path)
        assert found.application_id == "shop"
        eventually(lambda: urlopen(f"{found.url}/healthz").status == 200)
        run.stop("enough", True)
        finish(run)
    assert running_pipelines(tmp_path) == []


@pytest.mark.spark
def test_a_taken_port_is_a_log_line_and_the_pipeline_runs(spark, taken, tmp_path, caplog):
    bench, config = Bench(spark), AppConfig(admin_api_port=taken, cache_dir=tmp_path)
    run = bench.prepare(TEXT)
    with admin_server(run, spark, config) as server:
        run.on_first_rows(server.first_rows)
        run.start()
        eventually(lambda: f"the admin API cannot listen on 127.0.0.1:{taken}" in caplog.text)
        eventually(lambda: len(bench.ids("out")) == 100)
        run.stop("enough", True)
        finish(run)


@pytest.mark.spark
def test_nothing_is_served_with_admin_api_enabled_false(spark, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    bench, config = Bench(spark), AppConfig(admin_api_enabled=False, admin_api_port=0, cache_dir=tmp_path)
    run = bench.prepare(TEXT.replace("ends: false", "ends: true"))
    with admin_server(run, spark, config) as server:
        run.on_first_rows(server.first_rows)
        run.start()
        finish(run)
    assert "admin API" not in caplog.text


@pytest.mark.spark
def test_with_admin_api_token_requests_need_it(spark):
    bench = Bench(spark)
    run = bench.start(TEXT)
    with serving(run, admin_api_token="hunter22") as api:
        assert api.ask("/admin/topology")[0] == 401
        assert api.ask("/healthz")[0] == 200
    run.stop("enough", True)
    finish(run)
