"""Fields of plugin nodes: options are on the node or under ``options:``, and are passed as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from pydantic import BaseModel

from streamling.pipeline.document.loader import Document, Path
from streamling.pipeline.model import NodeKind
from streamling.pipeline.validation_errors import field_name

_TYPED = frozenset({"type", "from", "primary_key", "telemetry", "parallelism"})
_REBATCHING = frozenset({"batch_size", "batch_flush_interval"})


def typed_fields(kind: NodeKind) -> frozenset[str]:
    """Return the fields that belong to the node and never to the plugin's options. Sources are not re-batched: their
    ``batch_size`` is an option like any other."""
    return _TYPED if kind is NodeKind.SOURCE else _TYPED | _REBATCHING


def merge_options(
    raw: Mapping[str, Any], kind: NodeKind, model: type[BaseModel], document: Document, path: Path
) -> dict[str, Any]:
    """Return one flat mapping; fields on the node take precedence over ``options:``, where typed fields are ignored."""
    typed = typed_fields(kind)
    nested = raw.get("options")
    within = nested if isinstance(nested, dict) else {}
    declared = {field_name(name, info) for name, info in model.model_fields.items() if not _takes_text(info.annotation)}
    merged = {
        key: _text(value, key in declared, document, (*path, "options", key))
        for key, value in within.items()
        if key not in typed
    }
    for key, value in raw.items():
        if key in typed:
            merged[key] = value
        elif key != "options":
            merged[key] = _text(value, key in declared, document, (*path, key))
    return merged


def _takes_text(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, UnionType):
        return any(map(_takes_text, get_args(annotation)))
    return annotation is str


def _text(value: Any, declared: bool, document: Document, path: Path) -> Any:
    """Return ``value`` as the text that was written; lists and mappings as JSON. If the plugin declares a field of
    another type, the value is not changed."""
    if declared or isinstance(value, str):
        return value
    written = document.entry_location(path).text if path in document.entry_locations else None
    return json.dumps(value) if written is None or isinstance(value, list | dict) else written
