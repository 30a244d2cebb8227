"""The control plane behind the API: what clients can ask for, independent of HTTP."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp

from streamling.errors import InvalidPipeline, Problem, StreamlingError
from streamling.observe.telemetry.log_book import LogBook
from streamling.pipeline.config.pipeline_settings import RefusedSettings
from streamling.pipeline.document.loader import load_yaml
from streamling.pipeline.model import NodeKind
from streamling.pipeline.secrets.store import SecretStore
from streamling.redaction import MASK, redact
from streamling.serve.catalogue import Catalogue
from streamling.serve.errors import InvalidDefinition, Refused
from streamling.serve.fleet_metrics import MeasuredPipeline, fleet_exposition
from streamling.serve.launchers import Launchers
from streamling.serve.lifecycle import State
from streamling.serve.model import PipelineBody, PipelineKey, PipelineRecord
from streamling.serve.reconciler import Reconciler
from streamling.serve.runtime import Preview
from streamling.serve.schemas import Costs, LastError, PipelineObject, PipelineSummary, ProblemObject
from streamling.serve.sizes import LARGEST
from streamling.serve.stored_topology import stored_topology

#: fields of a pipeline that the reconciler knows
_OF_STATE = ("state", "reason", "error", "remedy", "ready", "restarts")


class ControlPlane:
    """All methods may be called from any thread."""

    def __init__(
        self,
        catalogue: Catalogue,
        reconciler: Reconciler,
        launchers: Launchers,
        logs: LogBook,
    ) -> None:
        self.catalogue = catalogue
        self.logs = logs
        self._reconciler = reconciler
        self._launchers = launchers
        self._rows, self._cpu = Rates(), Rates()

    @property
    def secrets(self) -> SecretStore:
        return self._launchers.secrets

    # ── checks ──────────────────────────────────────────────────────────────────────────────────────────────

    def check(
        self, key: PipelineKey, wanted: PipelineBody, preview: Preview | None = None, *, starts: bool = False
    ) -> None:
        """Raise `InvalidDefinition` if the definition or its settings are invalid. A source that cannot be asked for
        its columns now is not an error: it may be available when the pipeline starts. With ``starts``, it starts if it
        is valid."""
        refused_settings: tuple[str, ...] = ()
        try:
            problems = self._problems(PipelineRecord.first(key, wanted, datetime.now(UTC)), preview, starts)
        except RefusedSettings as error:
            problems, refused_settings = error.problems, error.names
        if problems:
            raise InvalidDefinition(problem_objects(problems, wanted.definition), refused_settings)

    def _problems(self, record: PipelineRecord, preview: Preview | None, starts: bool) -> list[Problem]:
        if MASK in record.definition or MASK in str(record.config):
            message = f"the definition contains {MASK}, which stands for a secret that was masked in a response"
            return [Problem(message, remedy="write the value, or better ${secret:NAME}")]
        try:
            checked = self._launchers.check(record, preview)
            if starts:
                self._launchers.keep(checked)
        except RefusedSettings:
            raise
        except InvalidPipeline as error:
            return error.problems
        except StreamlingError as error:
            if not error.internal and not error.retriable:
                return [Problem(error.with_causes, remedy=error.remedy)]
        return []

    def check_definition(self, wanted: PipelineBody) -> None:
        """Do the same for a definition without a name, which may be meant for any size."""
        self.check(PipelineKey("validate", "definition"), wanted.model_copy(update={"size": LARGEST}))

    # ── views ───────────────────────────────────────────────────────────────────────────────────────────────

    def summary(self, record: PipelineRecord) -> PipelineSummary:
        return PipelineSummary(**self._fields(record))

    def pipeline(self, record: PipelineRecord) -> PipelineObject:
        return PipelineObject(
            **self._fields(record), definition=masked_text(record.definition), config=masked_values(record.config)
        )

    def _fields(self, record: PipelineRecord) -> dict[str, Any]:
        key = record.key
        actual, measures = self._reconciler.actual(key), self._reconciler.measure(key)
        failure, now = actual.last_failure, time.monotonic()
        cpu = None if measures.cpu_seconds is None else self._cpu.rate(key, now, measures.cpu_seconds)
        same = ("namespace", "name", "desired", "generation", "etag", "size", "isolation", "managed_by")
        return {
            **{name: getattr(record, name) for name in (*same, "created_at", "updated_at")},
            **{name: getattr(actual, name) for name in _OF_STATE},
            "current": actual.revision == record.revision or (record.desired == actual.state == "paused"),
            "stale": self.catalogue.is_stale,
            "stale_since": self.catalogue.stale_since,
            "state_since": _moment(actual.since),
            "last_error": None if failure is None else LastError(**{**vars(failure), "at": _moment(failure.at)}),
            "restarts_since": None if actual.restarts_since is None else _moment(actual.restarts_since),
            # one that waits longer, as `reason` says, has no known time
            "next_attempt_at": _moment(retry_at) if (retry_at := actual.retry_at or 0) > time.time() else None,
            "rows": measures.rows,
            "rows_out": measures.rows_out,
            "dead_letters": measures.dead_letters,
            "rows_in": measures.rows_in,
            "lag": measures.lag,
            "epoch": measures.epoch,
            "costs": Costs(
                rows_per_second=self._rows.rate(key, now, measures.rows_out),
                checkpoint_age=measures.checkpoint_age,
                threads=measures.threads,
                cpu_seconds=measures.cpu_seconds,
                cpu_percent=None if cpu is None else 100 * cpu,
                shared_with=measures.shared_with,
            ),
        }

    def metrics(self, sees: Callable[[str], bool]) -> str:
        """Return the metrics of the pipelines in all namespaces that a client sees, for Prometheus."""
        known = self._reconciler
        return fleet_exposition(
            [
                MeasuredPipeline(key, known.actual(key), known.measure(key), known.handle(key))
                for key in sorted(self.catalogue.records())
                if sees(key.namespace)
            ]
        )

    def state(self, key: PipelineKey) -> State:
        return self._reconciler.actual(key).state

    def routes(self, key: PipelineKey) -> ASGIApp | None:
        """Return the routes that show what a pipeline does; None if it does not run."""
        handle = self._reconciler.handle(key)
        return None if handle is None else handle.routes()

    def history(self, key: PipelineKey, buckets: int, node: str | None) -> dict[str, Any]:
        """Return rates and lag of a pipeline or of a node, also while it does not run."""
        return self._reconciler.history(key).series(time.time(), buckets, node)

    def stored_topology(self, key: PipelineKey) -> dict[str, Any]:
        """Return the topology of a pipeline that does not run."""
        record, last = self.catalogue.get(key), self._reconciler.history(key).last
        return stored_topology(key, masked_text(record.definition), self._reconciler.actual(key), last)

    def is_ready(self, key: PipelineKey) -> bool:
        return self._reconciler.actual(key).ready

    def checkpoint(self, key: PipelineKey, timeout: float) -> None:
        """Store what a pipeline has delivered; raises if it does not run, or takes longer than ``timeout`` seconds."""
        handle = self._reconciler.handle(key)
        state = self.state(key)
        if handle is None or state is not State.RUNNING:
            raise Refused("not_running", f"the pipeline '{key}' is {state}, not running", "resume or restart it first")
        if not handle.checkpoint(timeout):
            raise Refused(
                "timeout",
                f"the checkpoint of '{key}' was not complete within {timeout:g} s",
                "a sink may be slow or unavailable: see the logs of the pipeline",
            )


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


# ── rates ────────────────────────────────────────────────────────────────────────────────────────────────────────

#: rates are averaged over this time; over less they would jump with every batch
_SECONDS = 10.0


class Rates:
    """Remembers the counts of the last seconds. Called from any thread; a lost count does no harm."""

    def __init__(self) -> None:
        self._counts: dict[PipelineKey, deque[tuple[float, float]]] = {}

    def rate(self, key: PipelineKey, now: float, count: float) -> float | None:
        """Return the increase per second since the oldest count within the last seconds; None if there is none."""
        counts = self._counts.setdefault(key, deque())
        if counts and count < counts[-1][1]:  # the pipeline has been restarted
            counts.clear()
        while len(counts) > 1 and now - counts[0][0] > _SECONDS:
            counts.popleft()
        rate = (count - counts[0][1]) / (now - counts[0][0]) if counts and now > counts[0][0] else None
        counts.append((now, count))
        return rate


# ── definitions without secrets, but with the references to them ─────────────────────────────────────────────────

_REFERENCE = re.compile(r"\$\{[^}]*\}")
#: Quotes end everything that is recognised as a credential by its form, such as `token=…`; the private character keeps
#: other quotes apart.
_PLACEHOLDER = '"\ue000{}\ue000"'
_PLACEHOLDERS = re.compile('"\ue000(\\d+)\ue000"')


def masked_text(text: str) -> str:
    """Return ``text`` with secrets masked; ``${secret:NAME}`` names a secret and stays."""
    references = _REFERENCE.findall(text)
    numbers = iter(range(len(references)))
    hidden = _REFERENCE.sub(lambda _: _PLACEHOLDER.format(next(numbers)), text.replace("\ue000", ""))
    return _PLACEHOLDERS.sub(lambda found: references[int(found[1])], redact(hidden))


def masked_values(value: Any) -> Any:
    """Return a JSON value with secrets masked in all of its texts."""
    if isinstance(value, dict):
        return {key: masked_values(each) for key, each in value.items()}
    if isinstance(value, list):
        return [masked_values(each) for each in value]
    return masked_text(value) if isinstance(value, str) else value


# ── problems of a definition as clients see them ─────────────────────────────────────────────────────────────────


def problem_objects(problems: list[Problem], definition: str) -> list[ProblemObject]:
    """Return ``problems`` of ``definition``."""
    nodes = sorted(_node_lines(definition), key=lambda each: each[0])
    return [
        ProblemObject(
            message=redact(problem.message),
            line=problem.line,
            column=problem.column,
            node=_node_at(problem.line, nodes),
            remedy=redact(problem.remedy) if problem.remedy else None,
        )
        for problem in problems
    ]


def _node_lines(definition: str) -> Iterator[tuple[int, str | None]]:
    """Yield the line where each section and each node begins; a section has no name."""
    try:
        document = load_yaml(definition, "")
    except InvalidPipeline:
        return
    if not isinstance(document.data, dict):
        return
    for section, nodes in document.data.items():
        yield document.entry_location((section,)).key.line, None
        if section in {kind.section for kind in NodeKind} and isinstance(nodes, dict):
            for name in nodes:
                yield document.entry_location((section, name)).key.line, str(name)


def _node_at(line: int, nodes: list[tuple[int, str | None]]) -> str | None:
    before = [name for start, name in nodes if start <= line]
    return before[-1] if before else None
