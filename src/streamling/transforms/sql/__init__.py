"""The sql transform."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    transforms={"sql": "transform:SqlTransform"},
)
