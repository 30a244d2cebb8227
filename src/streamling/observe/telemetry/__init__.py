"""Logs and metrics."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    config="config:TelemetryConfig",
)
