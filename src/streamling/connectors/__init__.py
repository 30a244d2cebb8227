"""Sources and sinks: one folder per system. Those that fit into one module are declared here."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sinks={"blackhole": "blackhole:BlackholeSink", "memory": "memory:MemorySink", "print": "print:PrintSink"},
    config="config:PrintConfig",
)
