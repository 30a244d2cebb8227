"""Where positions are stored: what all state backends share, and those that need no server."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    state_backends={"InMemory": "memory:MemoryStateStore", "Sqlite": "sqlite:SqliteStateStore"},
    state_settings={"sqlite": "config:SqliteStateSettings"},
    config="config:StateConfig",
)
