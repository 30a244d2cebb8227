"""Handler transform: rows are sent to an HTTP endpoint and replaced by its answer."""

from __future__ import annotations

from pydantic import Field

from streamling.pipeline.http import HttpCall
from streamling.pipeline.options import Downstream, Parallel, Rebatched, TransformOptions
from streamling.pipeline.scalars import PrimaryKey
from streamling.pipeline.typenames import TypeName


class HandlerTransformOptions(HttpCall, Parallel, Rebatched, Downstream, TransformOptions):
    """Enrichment over HTTP."""

    primary_key: PrimaryKey = Field(description="Key columns of the answer, comma-separated.")
    schema_override: dict[str, TypeName | None] = Field(
        default={}, description="Columns that the answer adds or changes, with their type; null removes one."
    )
