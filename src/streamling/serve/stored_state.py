"""Deletes the stored positions of a pipeline that does not run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from streamling.engine.run.app import App
from streamling.engine.run.state import find_state
from streamling.engine.state.memory import MemoryState
from streamling.errors import StreamlingError
from streamling.plugins.connections import ExternalPosition
from streamling.serve.applications import Applications, definition_file
from streamling.serve.runtime import PipelineSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def delete_state(applications: Applications, spark: Callable[[], SparkSession], spec: PipelineSpec) -> None:
    """Delete the entries of the state backend and the positions that nodes store elsewhere, such as the offsets of
    consumer groups."""
    try:
        app = applications.of(spec)
    except StreamlingError:  # its settings are invalid: nothing was ever read with them
        app = applications.of(replace(spec, config={}))
    positions = _external_positions(app, spark, spec)
    with app.locked_state():
        for position in positions:
            position.reset()
        if (state := find_state(app.config, app.shared)) is not None:
            with state:
                state.clear()


def _external_positions(app: App, spark: Callable[[], SparkSession], spec: PipelineSpec) -> list[ExternalPosition]:
    try:
        pipeline = app.parse(spec.definition, definition_file(spec))
        return app.run(pipeline, MemoryState()).operator_classes.external_positions(spark, None)
    except StreamlingError as error:
        log.warning("%s: only its entries in the state backend are deleted: %s", spec.key, error)
        return []
