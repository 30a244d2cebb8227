"""ClickHouse: source and sink."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"clickhouse": "source:ClickHouseSource"},
    sinks={"clickhouse": "sink:ClickHouseSink"},
    config="config:ClickHouseConfig",
    state_keys=(r"clickhouse_source:(?P<node>.+):v1",),
)
