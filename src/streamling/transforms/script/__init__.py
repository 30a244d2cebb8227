"""The script transform: JavaScript and TypeScript over Arrow batches, in a sandbox."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    transforms={"script": "transform:ScriptTransform"},
    config="config:ScriptConfig",
)
