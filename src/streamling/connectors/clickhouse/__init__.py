"""ClickHouse: source and sink."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"clickhouse": "source:ClickHouseSourceOptions"},
    sinks={"clickhouse": "sink:ClickHouseSinkOptions"},
    config="config:ClickHouseConfig",
)
