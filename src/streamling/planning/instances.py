"""How many instances of a node run, and which rows each gets."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from streamling.dataflow.routing import Router
from streamling.errors import StreamlingError
from streamling.pipeline.model import Node
from streamling.pipeline.options import ParallelOptions
from streamling.plugins.operators import Operator
from streamling.plugins.partitioning import ByColumns, ByPrimaryKey, RoundRobin


def instances_of(node: Node, operator: type[Operator[Any]]) -> int:
    """As the operator's class says; one that says nothing runs ``parallelism`` times, a source once."""
    declared = operator.partitioning(node.options)
    if declared is None:
        return node.options.instance_count if operator.scales_with_parallelism else 1
    return declared.count(node.options.parallelism if isinstance(node.options, ParallelOptions) else None)


def router_of(
    node: Node, operator: type[Operator[Any]], input_schema: pa.Schema, upstream_key: tuple[str, ...] = ()
) -> Router:
    """What divides the rows of ``node`` between its instances. A key whose columns the node itself makes cannot place
    its input: the key of what it reads has to."""
    declared = operator.partitioning(node.options)
    instances = instances_of(node, operator)
    match declared.routing if declared else ByPrimaryKey():
        case ByColumns(columns):
            return Router(instances, _known(columns, input_schema))
        case RoundRobin():
            return Router(instances)
        case ByPrimaryKey():
            arrive = set(input_schema.names)
            return Router(instances, node.primary_key if arrive.issuperset(node.primary_key) else upstream_key)


def _known(columns: tuple[str, ...], schema: pa.Schema) -> tuple[str, ...]:
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise StreamlingError.user(
            f"its rows are placed by column '{missing[0]}', which does not arrive",
            remedy=f"select it upstream; there are: {', '.join(schema.names)}",
        )
    return columns
