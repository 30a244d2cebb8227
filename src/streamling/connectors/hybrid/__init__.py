"""The hybrid source: reads tables first, then the topic that continues them."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"hybrid": "source:HybridSourceOptions"},
)
