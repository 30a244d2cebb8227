"""Postgres: sinks, the state backend, dynamic tables."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sinks={"postgres": "sink:PostgresSink", "postgres_aggregate": "aggregate.sink:PostgresAggregateSink"},
    state_backends={"Postgres": "state:PostgresStateStore"},
    state_settings={"postgres": "config:PostgresStateSettings"},
    config="config:PostgresConfig",
)
