"""Runs pipelines in a Python program: notebooks, tests, services.

import streamling

with streamling.Runtime() as runtime:
    run = runtime.start("pipeline.yaml")
    run.wait()
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamling.api.definition import Definition, read_definition, with_memory_nodes
from streamling.api.managed import Managed
from streamling.api.run import Run
from streamling.connectors.memory import MemoryInput, MemoryInputs, Rows
from streamling.engine.launch.launcher import Launcher
from streamling.engine.launch.spark import start_spark
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.file import read_document
from streamling.pipeline.document.loader import Document
from streamling.plugins.shared import SharedResources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from streamling.spark.jvm.session import SparkDriver


class Runtime(Managed):
    """One Spark session and any number of pipelines on it. Methods may be called from any thread.

    Spark starts in the background. As a context manager, the runtime stops all pipelines and Spark at the end of the
    block, and raises the failure of a pipeline that no call has raised.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        spark: SparkDriver | None = None,
    ) -> None:
        """Read the configuration as the command line does: defaults, the file ``config`` (by default ``config.yaml`` in
        the working directory if it exists), environment variables. ``settings``, structured like the file, takes
        precedence.

        ``spark`` is a session that the caller has started and will stop.
        """
        self._config_name = "config" if config is None else os.fspath(config)
        self._settings = settings or {}
        self._lock = threading.Lock()
        self._runs: list[Run] = []
        self._owns_spark = spark is None
        self._spark = spark or start_spark(self._config({}))

    def start(
        self,
        definition: Definition,
        *,
        settings: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Rows | MemoryInput] | None = None,
        capture: Collection[str] = (),
    ) -> Run:
        """Start a pipeline and return when data flows.

        ``definition`` is a path, YAML text (recognised by its line breaks) or a mapping with the structure of the file.
        ``settings`` applies to this pipeline only. ``inputs`` replaces sources, whatever their type, by the given rows;
        a `MemoryInput` also takes rows later. ``capture`` replaces sinks by memory sinks, for `Run.table`.

        A pipeline from a file, or with a ``name``, continues from the position that its last run has stored. Any other
        definition has no identity: its state is kept in memory and not after the run.

        Raises `InvalidPipeline` with all errors of the definition, or another `StreamlingError`.
        """
        read = read_definition(Launcher.of(self._config(settings or {})), definition)
        given = {name: _as_input(rows) for name, rows in (inputs or {}).items()}
        pipeline = with_memory_nodes(read.pipeline, given, capture)
        shared = SharedResources()
        shared.provide(MemoryInputs(given))
        launcher = replace(read.launcher, shared=shared)
        with ExitStack() as resources:

            def session(packages: frozenset[str]) -> Callable[[], SparkSession]:
                spark = self._spark_with(packages, launcher.config)
                resources.enter_context(spark.translate_failures())
                return spark.session

            run = resources.enter_context(launcher.prepared(pipeline, session, in_memory=not read.has_identity))
            run.start()
            started = Run(run, launcher.config.application_id, resources.pop_all())
        with self._lock:
            self._runs = [each for each in self._runs if each.state == "running" or each.has_unreported_failure]
            self._runs.append(started)
        return started

    @property
    def runs(self) -> list[Run]:
        """The pipelines that are running."""
        with self._lock:
            return [run for run in self._runs if run.state == "running"]

    def close(self) -> None:
        """Stop all pipelines, then Spark. Raises the first failure that no call has raised."""
        failures: list[StreamlingError] = []
        with self._lock:
            runs, self._runs = self._runs, []
        for run in runs:
            if run.state == "running" or run.has_unreported_failure:
                try:
                    run.stop()
                except StreamlingError as error:
                    failures.append(error)
        if self._owns_spark:
            self._spark.stop()
        if failures:
            raise failures[0]

    def _end(self) -> None:
        self.close()

    def _config(self, settings: Mapping[str, Any]) -> AppConfig:
        overrides = read_document(Document(_merged(self._settings, settings), "settings", {}), AppConfig)
        return load_config(self._config_name, cwd=Path.cwd(), env=os.environ, overrides=overrides)

    def _spark_with(self, packages: frozenset[str], config: AppConfig) -> SparkDriver:
        """Return the session, started again if it lacks Spark packages and no pipeline uses it."""
        with self._lock:
            missing = packages - self._spark.spark_packages
            if missing and (not self._owns_spark or any(run.state == "running" for run in self._runs)):
                raise StreamlingError.user(
                    f"the pipeline needs the Spark package {', '.join(sorted(missing))}, which was not downloaded when "
                    "the session started",
                    remedy="run 'streamling doctor --prepare' once, which downloads them, or start this pipeline first",
                )
            if missing:
                self._spark.stop()
                self._spark = start_spark(config, packages)
            return self._spark


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``base`` with ``changes``; sections in both are merged."""
    merged = dict(base)
    for name, value in changes.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(name), Mapping)
        merged[name] = _merged(merged[name], value) if both else value
    return merged


def _as_input(rows: Rows | MemoryInput) -> MemoryInput:
    if isinstance(rows, MemoryInput):
        return rows
    complete = MemoryInput(rows)
    complete.close()
    return complete
