"""Connection checks of a pipeline file, for `validate --connect` and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from streamling.cli.canvas import canvas_of_stdout
from streamling.cli.errors import render
from streamling.errors import StreamlingError
from streamling.network.policy import NetworkPolicy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.engine.planning.connection_checks import ConnectionResult
    from streamling.engine.run.app import App
    from streamling.engine.run.run import PipelineRun
    from streamling.spark.jvm.session import SparkRuntime


@dataclass
class LazySpark:
    """A Spark session for checks, started on first use."""

    app: App
    spark_packages: frozenset[str]
    debug: bool
    _runtime: SparkRuntime | None = None

    def session(self) -> SparkSession:
        if self._runtime is None:
            from streamling.spark.jvm.session import SparkRuntime

            config = self.app.config
            self._runtime = SparkRuntime.start(
                master="local[1]",
                conf=config.spark.conf,
                variables=config.spark.environment,
                properties=NetworkPolicy.of(config.network).java_properties(),
                cache_dir=config.cache_dir,
                spark_packages=self.spark_packages,
                quick=True,
                debug=self.debug,
            )
        return self._runtime.session()

    def stop(self) -> None:
        if self._runtime is not None:
            self._runtime.stop()


def check_connections(app: App, run: PipelineRun, spark: LazySpark) -> list[ConnectionResult]:
    """The result of each connection check of the pipeline."""
    from streamling.engine.planning.connection_checks import NodeConnection, check_connections
    from streamling.engine.run.state import state_connection

    state = state_connection(app.config)
    own = [] if state is None else [NodeConnection("(state)", state)]
    return check_connections([*own, *run.operator_classes.connections(spark.session)], spark.session)


def show_connections(tried: Sequence[ConnectionResult]) -> None:
    """A table on stdout; full errors on stderr."""
    if not tried:
        click.echo("the pipeline has no connections")
        return
    rows = [(one.node, one.kind, one.latency, "ok" if one.ok else "failed", _target(one)) for one in tried]
    for line in canvas_of_stdout().table(("NODE", "CONNECTION", "LATENCY", "RESULT", "TARGET"), rows):
        click.echo(line, color=True)
    failed = [one for one in tried if not one.ok]
    for one in failed:
        error = StreamlingError.user(f"{one.node}: {one.error}", remedy=one.remedy)
        click.echo(render(error, debug=False), err=True)
    if failed:
        click.echo(f"{len(failed)} of {len(tried)} connections failed", err=True)


def _target(one: ConnectionResult) -> str:
    return f"{one.target} ({one.remark})" if one.remark else one.target


def as_objects(tried: Sequence[ConnectionResult]) -> list[dict[str, Any]]:
    """The same as objects for JSON."""
    return [
        {
            "node": one.node,
            "connection": one.kind,
            "target": one.target,
            "ok": one.ok,
            "latency_ms": round(one.seconds * 1000, 1),
            "error": one.error,
            "remedy": one.remedy,
        }
        for one in tried
    ]
