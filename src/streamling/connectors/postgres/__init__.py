"""Postgres: sinks, the state backend, dynamic tables."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sinks={"postgres": "sink:PostgresSink", "postgres_aggregate": "aggregate.sink:PostgresAggregateSink"},
    config="config:PostgresConfig",
)
