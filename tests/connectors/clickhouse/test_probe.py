from __future__ import annotations

import socket

import pytest

from streamling.connectors.clickhouse.sink import ClickHouseSink, ClickHouseSinkOptions
from streamling.errors import StreamlingError, Unreachable
from streamling.pipeline.config import AppConfig
from streamling.plugins.connections import ConnectionCheck
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from tests.connectors.clickhouse.driver import Database


def check_of(**settings: object) -> ConnectionCheck:
    fields = {"type": "clickhouse", "from": "x", "table": "t", "primary_key": "id"}
    context = NodeContext(
        name="out",
        options=ClickHouseSinkOptions.model_validate(fields),
        config=AppConfig(clickhouse_sink=settings),
        state=UnavailableState("none"),
        metrics=NoopMetrics(),
    )

    def no_spark() -> None:
        raise AssertionError("the check needs no Spark")

    (check,) = ClickHouseSink.connections(context, no_spark)  # type: ignore[arg-type]
    return check


@pytest.mark.services
def test_a_server_is_shown_with_its_version_and_user(database: Database) -> None:
    check = check_of(**database.settings)
    assert check.kind == "ClickHouse"
    assert check.target == f"{database.settings['url']}, database '{database.name}'"
    assert str(check.check()).endswith(f"user '{database.settings['user']}'")


@pytest.mark.services
@pytest.mark.parametrize(
    ("setting", "message"),
    [("password", "rejected the user"), ("database", "Database wrong does not exist")],
)
def test_a_wrong_setting_is_an_error(database: Database, setting: str, message: str) -> None:
    with pytest.raises(StreamlingError, match=message) as caught:
        check_of(**{**database.settings, setting: "wrong"}).check()
    assert f"clickhouse_sink.{setting}" in str(caught.value.remedy)


def test_a_server_that_does_not_run_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="does not respond: Connection refused"):
        check_of(url=f"http://127.0.0.1:{port}").check()
