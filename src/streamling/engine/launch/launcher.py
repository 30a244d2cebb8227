"""Launches pipelines: reads the file, opens the state, checks, and builds what runs. Every command uses it."""

from __future__ import annotations

import logging
import os
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from pydantic import SecretStr

from streamling.engine.run.run import PipelineRun
from streamling.engine.state.memory import MemoryState
from streamling.engine.state.store import migrate_legacy_state, owner, state_store
from streamling.errors import error_context
from streamling.pipeline.config import AppConfig, load_config
from streamling.pipeline.config.identity import LEGACY_APPLICATION_ID, default_identity
from streamling.pipeline.keyed_options import options_for
from streamling.pipeline.model import Pipeline
from streamling.pipeline.parse import load_pipeline, parse_pipeline
from streamling.pipeline.preview import without_sinks
from streamling.pipeline.side_outputs import with_side_outputs
from streamling.pipeline.variables import Variables
from streamling.plugins.loader import Plugins
from streamling.plugins.preprocessor import Preprocessor
from streamling.plugins.registry import Registry
from streamling.plugins.shared import SharedResources
from streamling.plugins.state_backend import StateBackend, StateStore
from streamling.retry import call_with_startup_retries
from streamling.spark.jvm.timings import Timings
from streamling.spark.master import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Launcher:
    """Launches pipelines with one configuration and the node types it makes available."""

    config: AppConfig
    registry: Registry
    plugins: Plugins
    #: variables for pipeline files
    env: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    #: secrets besides those of the configuration; None: those of the store that the configuration names
    stored_secrets: Mapping[str, SecretStr] | None = field(default=None, repr=False)
    #: whether the application id is derived from the pipeline file
    is_named_after_file: bool = False
    #: whether sinks discard their rows, and nothing outside of this process is changed
    is_preview: bool = False
    #: whether rows that never leave Spark are counted, too
    count_in_spark: bool = False
    #: whether somebody else makes sure that a pipeline runs once
    runs_once: bool = False
    #: of the Spark sessions of its runs
    spark_settings: Mapping[str, str] = field(default_factory=dict)
    #: what runs and states of this application share, with others if they have the same object
    shared: SharedResources = field(default_factory=SharedResources, repr=False)

    @classmethod
    def load(
        cls, config_name: str | None = None, *, env: Mapping[str, str] = os.environ, cwd: Path | None = None
    ) -> Launcher:
        """Read the configuration. A plugin is imported when a pipeline uses it."""
        return cls.of(load_config(config_name or "config", cwd=cwd or Path.cwd(), env=env), env=env)

    @classmethod
    def of(
        cls,
        config: AppConfig,
        *,
        env: Mapping[str, str] = os.environ,
        stored_secrets: Mapping[str, SecretStr] | None = None,
        shared: SharedResources | None = None,
    ) -> Launcher:
        """Return the node types that ``config`` makes available."""
        registry = Registry.builtin()
        plugins = Plugins(registry, config.plugin.path)
        return cls(config, registry, plugins, env, stored_secrets, shared=shared or SharedResources())

    def pipeline(self, file: str | None = None) -> Pipeline:
        """Return the pipeline in ``file``, or in the file of the configuration."""
        path = file or self.config.pipeline_definition_location
        text = _text(path)
        if text and self.is_preview:
            return self.parse(text, str(path))
        return self._checked(text, partial(load_pipeline, path))

    def read(self, file: str | None = None) -> tuple[Launcher, Pipeline]:
        """Return the pipeline in ``file``, or in the file of the configuration, and the same with its name."""
        pipeline = self.pipeline(file)
        return self.named_after(pipeline), pipeline

    def without_sinks(self, text: str) -> str:
        """Return the pipeline ``text`` with sinks that discard their rows."""
        self.plugins.load_named(text)  # whether a node has an output depends on its type
        return without_sinks(text, self.registry)

    def parse(self, text: str, file: str) -> Pipeline:
        """Return the pipeline in ``text``; errors name ``file``."""
        if self.is_preview:
            text = self.without_sinks(text)
        return self._checked(text, partial(parse_pipeline, text, file=file))

    def _checked(self, text: str, load: Callable[..., Pipeline]) -> Pipeline:
        plugins = self.config.plugin
        self.plugins.load_named("\n".join([text, *plugins.preprocessor_ids, *plugins.side_output_ids]))
        rewrites = list(self._preprocessors())
        if rewrites:  # the text that they return may use more plugins
            rewrites.append(self._load_named)
        pipeline = load(registry=self.registry, config=self.config, preprocessors=rewrites, variables=self.variables)
        return with_side_outputs(pipeline, plugins.side_output_ids, plugins.side_output_options, self.registry)

    @property
    def variables(self) -> Variables:
        """The values of variables in pipeline files: the environment, and the secrets of the configuration, then those
        of the store if there is one."""
        return Variables(self.env, self._secrets())

    def _secrets(self) -> Mapping[str, SecretStr]:
        stored = self.stored_secrets
        if stored is None and self.config.secret_store.path.exists():
            from streamling.pipeline.secrets.store import SecretStore, StoredSecrets

            stored = StoredSecrets(SecretStore.of(self.config, self.env))
        return self.config.secrets if stored is None else ChainMap(self.config.secrets, cast(Any, stored))

    def _load_named(self, text: str) -> str:
        self.plugins.load_named(text)
        return text

    def _preprocessors(self) -> Iterator[Callable[[str], str]]:
        """Yield the preprocessors of the configuration; one that does not exist is skipped: the file may not need
        it."""
        settings = self.config.plugin
        for id in settings.preprocessor_ids:
            kind = self.registry.preprocessors.get(id)
            if kind is None:
                log.warning("there is no preprocessor '%s' (plugin.preprocessor_ids): skipped", id)
            else:
                options = options_for(id, settings.preprocessor_options, self.registry.preprocessors)
                yield partial(_rewrite, id, kind, options)

    def named_after(self, pipeline: Pipeline) -> Launcher:
        """Return the same for ``pipeline``, which has its own application id unless the configuration sets one."""
        if "application_id" in self.config.model_fields_set:
            return self
        identity = default_identity(pipeline.file, pipeline.name, Path.cwd())
        return replace(
            self, config=self.config.model_copy(update={"application_id": identity}), is_named_after_file=True
        )

    def for_preview(self, rows: int | None = None) -> Launcher:
        """Return the same without sinks and with a name of its own: state and consumer groups of the pipeline are not
        read or changed. With ``rows``, keeps the first rows of every node."""
        kept: dict[str, Any] = {}
        if rows is not None:
            kept = {"records_per_topology_node": rows, "refresh_in_secs": float("inf")}
        update = {
            "application_id": f"preview-{uuid4().hex[:12]}",
            "live_data_inspect": self.config.live_data_inspect.model_copy(update=kept),
            "live_data_inspect_enabled": True,
        }
        return replace(self, config=self.config.model_copy(update=update), is_preview=True)

    def without_waiting(self) -> Launcher:
        """Return the same for checks: unreachable systems are reported immediately."""
        return replace(self, config=self.config.model_copy(update={"startup_timeout_sec": 0.0}))

    def run(self, pipeline: Pipeline, state: StateBackend | None = None) -> PipelineRun:
        """Return one run of ``pipeline``, by default with an empty state that is not kept; no system has been contacted
        yet."""
        return PipelineRun(
            pipeline,
            config=self.config,
            registry=self.registry,
            state=state or MemoryState(),
            count_in_spark=self.count_in_spark,
            spark_settings=self.spark_settings,
            shared=self.shared,
            read_only=self.is_preview,
            runs_once=self.runs_once,
        )

    @contextmanager
    def prepared(
        self,
        pipeline: Pipeline,
        session: Callable[[frozenset[str]], Callable[[], SparkSession]],
        *,
        checked: PipelineRun | None = None,
        in_memory: bool = False,
        timings: Timings | None = None,
        check_workers: bool = True,
    ) -> Iterator[PipelineRun]:
        """A run of ``pipeline`` that can be started: its state is open, all checks have passed.

        ``session`` gets the Spark packages that the pipeline needs, and returns what waits for the session. ``checked``
        is a run whose sources have been asked without a state; it is used if there is none. With ``in_memory``, the
        state is empty and not kept."""
        with self.state(pipeline, in_memory=in_memory) as state:
            if checked is not None and not state.get_prefix(""):
                run = checked
                run.context.use_state(state)
            else:
                run = self.run(pipeline, state)
            wait_for_session = session(run.node_declarations.spark_packages)
            self._build(run, wait_for_session, timings or Timings(), check_workers=check_workers)
            yield run

    def _build(
        self, run: PipelineRun, session: Callable[[], SparkSession], timings: Timings, *, check_workers: bool
    ) -> None:
        """Make the checks that need no Spark, which the JVM can use to start, then those of Spark. The executors of a
        cluster are checked in the meantime."""
        with timings.phase("ask the sources, check the SQL"):
            run.check_without_spark()
        with timings.phase("wait for Spark"):
            spark = session()
        workers = None
        if check_workers and not is_local(self.config.spark.master):
            from streamling.spark.jvm.workers import WorkerCheck

            workers = WorkerCheck(spark, needs_python=run.node_declarations.needs_python_workers)
        with timings.phase("analyse with Spark"):
            run.analyse(spark)
        if workers is not None:
            with timings.phase("ask the workers"):
                workers.wait(lambda: run.stop_reason is not None)

    def writes_to_stdout(self, pipeline: Pipeline) -> bool:
        """Return whether rows of ``pipeline`` go to standard output."""
        return any(self.registry.operator(sink).writes_to_stdout for sink in pipeline.sinks)

    @property
    def state_store(self) -> StateStore[Any]:
        """The place of the state."""
        return state_store(self.config, self.shared)

    @contextmanager
    def state(self, pipeline: Pipeline, *, in_memory: bool = False) -> Iterator[StateBackend]:
        """Provide the state of ``pipeline``, which no other process may write in the meantime; with ``in_memory`` an
        empty one that is not kept."""
        if in_memory or self.is_preview:
            yield MemoryState()
            return
        store, exclusive = self.state_store, not self._is_divided(pipeline)
        with ExitStack() as opened:
            # a database may start a moment later than the pipeline
            backend = call_with_startup_retries(
                lambda: opened.enter_context(store.owned(exclusive=exclusive)),
                timeout=self.config.startup_timeout_sec,
                log=log,
            )
            if self.is_named_after_file:
                self._take_over_former(backend, pipeline)
            yield backend

    def _is_divided(self, pipeline: Pipeline) -> bool:
        """Return whether several instances of ``pipeline`` may use one shared state."""
        return all(self.registry.operator(source).can_scale_out for source in pipeline.sources)

    def _take_over_former(self, backend: StateBackend, pipeline: Pipeline) -> None:
        names = frozenset(node.name for node in pipeline)
        if count := migrate_legacy_state(backend, self.config, lambda key: owner(key, names) in names):
            log.info(
                "the state of this pipeline moved from '%s' to '%s' (entries: %d)",
                LEGACY_APPLICATION_ID,
                self.config.application_id,
                count,
            )


def _rewrite(id: str, kind: type[Preprocessor], options: Mapping[str, Any], text: str) -> str:
    with error_context(f"preprocessor '{id}'"):
        return kind(options).rewrite(text)


def _text(path: str | os.PathLike[str]) -> str:
    """Return the text of a file in which names are searched; if it cannot be read, the parser reports it."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
