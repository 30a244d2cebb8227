"""Dynamic tables: sets of texts that SQL looks values up in, kept in memory or in Postgres."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    transforms={"dynamic_table": "transform:DynamicTableTransform"},
    config="config:DynamicTableConfig",
)
