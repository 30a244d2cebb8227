"""Sources and sinks: one folder per system. This module declares those that consist of a single module."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"memory": "memory:MemorySource"},
    sinks={"blackhole": "blackhole:BlackholeSink", "memory": "memory:MemorySink", "print": "print:PrintSink"},
    config="config:PrintConfig",
)
