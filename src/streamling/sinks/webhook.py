"""Webhook sink: rows are posted to an HTTP endpoint."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from streamling.pipeline.http import HttpCall
from streamling.pipeline.options import Parallel, Rebatched, SinkOptions


class WebhookSinkOptions(HttpCall, Parallel, Rebatched, SinkOptions):
    """Rows as JSON to an HTTP endpoint."""

    reserved_labels: ClassVar[frozenset[str]] = frozenset({"url"})

    skip_on_error: bool = Field(
        default=False, description="Count rows as delivered when the endpoint answers with an error."
    )
