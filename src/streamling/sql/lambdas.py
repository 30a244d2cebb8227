"""Types of the parameters of lambdas: ``transform(list, x -> x / 2)``."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

#: functions that call their lambdas with (key, value) of the map
_MAPS = ("map_filter", "transform_keys", "transform_values")


def parameters(node: exp.Lambda) -> dict[str, pa.DataType | None]:
    """The parameters of a lambda, in lower case, with their types if they follow from the other arguments of its call,
    which are rewritten."""
    names = [parameter.name.lower() for parameter in node.expressions]
    call = node.parent
    types = _types(call, node) if isinstance(call, exp.Anonymous) else []
    return {name: types[place] if place < len(types) else None for place, name in enumerate(names)}


def _types(call: exp.Anonymous, node: exp.Lambda) -> list[pa.DataType | None]:
    name, args = call.name.lower(), call.expressions
    known = [arg.meta.get("arrow") for arg in args]
    if name in _MAPS:
        return [known[0].key_type, known[0].item_type] if known[0] is not None and pa.types.is_map(known[0]) else []
    if name in ("aggregate", "reduce") and len(args) > 1:
        return [known[1], _element(known[0])]
    if name == "zip_with" and len(args) > 1:
        return [_element(known[0]), _element(known[1])]
    if name == "array_sort":
        return [_element(known[0])] * 2
    return [_element(known[0]), pa.int32()] if args and args[0] is not node else []


def _element(type_: pa.DataType | None) -> pa.DataType | None:
    return type_.value_type if type_ is not None and pa.types.is_list(type_) else None
