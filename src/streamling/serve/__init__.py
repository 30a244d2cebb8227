"""Many pipelines in one process: the catalogue of what should run, the reconciler that makes it run, the HTTP API."""

from streamling.builtins import Builtin

BUILTIN = Builtin(__name__, config="config:ServeConfig", metrics="metrics:METRICS")
