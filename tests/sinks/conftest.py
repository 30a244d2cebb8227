"""A real Postgres server for the sinks that write to one."""

from tests.state.conftest import postgres, postgres_folder

__all__ = ["postgres", "postgres_folder"]
