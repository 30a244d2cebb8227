"""Rules of `telemetry.labels`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import AfterValidator

from streamling.pipeline.document.scalars import BadValueError

MAX_LABELS = 20
MAX_VALUE_BYTES = 256
#: set by the runtime on every series of a node
RESERVED = frozenset({"id", "topology_node_type", "operator_type", "service_instance_id"})

_KEY = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def _check_key(key: str) -> str:
    if key.startswith("__"):
        raise BadValueError("begins with '__', which is reserved for internal use", "choose another label name")
    if not _KEY.fullmatch(key):
        raise BadValueError(
            "is not a valid label name", "use letters, digits and underscores, and do not begin with a digit"
        )
    if key in RESERVED:
        raise BadValueError("is a label that the runtime sets itself", "choose another label name")
    return key


def _check_value(value: str) -> str:
    size = len(value.encode())
    if size > MAX_VALUE_BYTES:
        raise BadValueError(f"has {size} bytes; a label value has at most {MAX_VALUE_BYTES}", "shorten it")
    if any((ord(char) < 32 and char != "\t") or 127 <= ord(char) < 160 for char in value):
        raise BadValueError("contains control characters", "only tab is allowed in a label value")
    return value


def _check_count(labels: dict[str, str]) -> dict[str, str]:
    if len(labels) > MAX_LABELS:
        raise BadValueError(f"has {len(labels)} entries; at most {MAX_LABELS} are allowed", "remove some labels")
    return labels


#: extra labels on the metrics of a node
Labels = Annotated[
    dict[Annotated[str, AfterValidator(_check_key)], Annotated[str, AfterValidator(_check_value)]],
    AfterValidator(_check_count),
]


def reserved_by_type(labels: Iterable[str], reserved: frozenset[str]) -> list[str]:
    """Return the labels that the node type sets itself."""
    return [key for key in labels if key in reserved]
