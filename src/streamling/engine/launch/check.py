"""Checks a pipeline without running it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from streamling.engine.launch.launcher import Launcher
from streamling.engine.launch.spark import OwnSpark
from streamling.engine.planning.connection_checks import ConnectionResult, NodeConnection, check_connections
from streamling.plugins.connections import ExternalPosition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class PipelineCheck(AbstractContextManager["PipelineCheck"]):
    """One pipeline and the checks that are possible before it runs. Spark is started by the first one that needs it,
    and stopped at the end of the block."""

    def __init__(self, launcher: Launcher, file: str | None, *, debug: bool) -> None:
        """Parse ``file``, or the file of the configuration; raises its errors."""
        #: with the name of the pipeline
        self.launcher, pipeline = launcher.read(file)
        self.run = self.launcher.run(pipeline)
        self._spark = OwnSpark(self.launcher.config, master="local[1]", quick=True, debug=debug)

    def session(self) -> SparkSession:
        """Return the session, in which nothing runs in parallel."""
        return self._spark.session(self.run.node_declarations.spark_packages)()

    def connections(self) -> list[ConnectionResult]:
        """Return the result of each connection check: of the state, and of all nodes."""
        state = self.launcher.state_store.connection()
        own = [] if state is None else [NodeConnection("(state)", state)]
        return check_connections([*own, *self.run.node_declarations.connections(self.session)], self.session)

    def external_positions(self, node: str | None) -> list[ExternalPosition]:
        """Return what the nodes, or only ``node``, store outside of the state."""
        return self.run.node_declarations.external_positions(self.session, node)

    def __exit__(self, *error: object) -> None:
        self._spark.stop()
