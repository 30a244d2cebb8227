"""A pipeline in one process: configuration, state backend, the run itself."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    config="config:StateConfig",
)
