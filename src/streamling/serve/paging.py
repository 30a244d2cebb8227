"""Pages of a sorted list."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from streamling.errors import StreamlingError
from streamling.serve.model import PipelineKey, PipelineRecord


def page_of(
    records: Sequence[PipelineRecord], cursor: str | None, limit: int
) -> tuple[list[PipelineRecord], str | None]:
    """Return the ``limit`` records after ``cursor``, and the cursor of the next page. Records that were added or
    removed in the meantime do not shift pages."""
    after = _decoded(cursor) if cursor else None
    rest = [record for record in records if after is None or record.key > after]
    page = rest[:limit]
    return page, _encoded(page[-1].key) if len(rest) > limit else None


def _encoded(key: PipelineKey) -> str:
    return base64.urlsafe_b64encode(str(key).encode()).decode()


def _decoded(cursor: str) -> PipelineKey:
    try:
        namespace, slash, name = base64.urlsafe_b64decode(cursor).decode().partition("/")
    except (binascii.Error, ValueError):
        slash = ""
    if not slash:
        raise StreamlingError.user("the cursor is invalid", remedy="use the value of 'next' of the previous page")
    return PipelineKey(namespace, name)
