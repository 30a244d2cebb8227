"""The hybrid source: reads tables first, then the topic that continues them."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    sources={"hybrid": "source:HybridSource"},
    state_keys=(r"hybrid_source_(?P<node>.+)_v1", r"clickhouse_source:(?P<node>.+):v1:phase_\d+"),
)
