"""Dynamic tables: sets of texts for look-ups in SQL, held in memory or in Postgres."""

from streamling.builtins import Builtin

BUILTIN = Builtin(
    __name__,
    transforms={"dynamic_table": "transform:DynamicTableTransform"},
    config="config:DynamicTableConfig",
)
