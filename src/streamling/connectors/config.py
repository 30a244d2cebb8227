"""The configuration of the connectors without a folder of their own."""

from __future__ import annotations

from pydantic import Field

from streamling.config.core import CoreConfig
from streamling.config.section import Section


class PrintSink(Section):
    """Printing rows."""

    sample_every: int = Field(default=1, ge=1, description="Print every n-th row.")
    num_records_before_stop: int | None = Field(default=None, ge=1, description="Stop after that many rows.")


class PrintConfig(CoreConfig):
    """What the print sink adds to the configuration."""

    print_sink: PrintSink = Field(default=PrintSink())
