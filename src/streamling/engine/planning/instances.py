"""How many instances of a node run, and which rows each gets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamling.engine.dataflow.routing import Router
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node
from streamling.pipeline.options import ParallelOptions
from streamling.plugins.operators import Operator
from streamling.plugins.partitioning import ByColumns, ByPrimaryKey, RoundRobin


def instances_of(node: Node, operator: type[Operator[Any]]) -> int:
    """The number of instances of ``node``: as the operator class declares; otherwise ``parallelism``, or one."""
    declared = operator.partitioning(node.options)
    if declared is None:
        return node.options.instance_count if operator.scales_with_parallelism else 1
    return declared.count(node.options.parallelism if isinstance(node.options, ParallelOptions) else None)


def router_of(
    node: Node, operator: type[Operator[Any]], input_schema: pa.Schema, upstream_key: tuple[str, ...] = ()
) -> Router:
    """Divides the rows of ``node`` among its instances. If the node itself makes the columns of its key, they are not
    in its input: then the key of its upstream is used."""
    declared = operator.partitioning(node.options)
    instances = instances_of(node, operator)
    match declared.routing if declared else ByPrimaryKey():
        case ByColumns(columns):
            return Router(instances, _known(columns, input_schema))
        case RoundRobin():
            return Router(instances)
        case ByPrimaryKey():
            available = set(input_schema.names)
            return Router(instances, node.primary_key if available.issuperset(node.primary_key) else upstream_key)


def _known(columns: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise StreamlingError.user(
            f"its rows are routed by the column '{missing[0]}', which is not in its input",
            remedy=f"select it upstream; available columns: {', '.join(schema.names)}",
        )
    return columns
