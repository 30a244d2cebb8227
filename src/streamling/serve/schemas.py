"""The bodies of requests and responses."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from streamling.serve.config import Role
from streamling.serve.lifecycle import State
from streamling.serve.model import DEFAULT_NAMESPACE, DesiredState, Isolation, ManagedBy, PipelineBody, Size


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewPipeline(PipelineBody):
    """A pipeline to create."""

    name: str
    namespace: str = DEFAULT_NAMESPACE


class DefinitionBody(_Body):
    """A definition to check."""

    definition: str
    config: dict[str, Any] = {}


class SecretBody(_Body):
    value: str = Field(min_length=1)


class Costs(BaseModel):
    """What a pipeline costs, as far as known."""

    #: rows delivered per second, without dead letters, over the last seconds
    rows_per_second: float | None = None
    #: seconds since the last checkpoint
    checkpoint_age: float | None = None
    threads: int | None = None
    #: CPU time that it has used since the start, without that of Spark jobs
    cpu_seconds: float | None = None
    #: the same over the last seconds, as a percentage of a core
    cpu_percent: float | None = None
    #: how many other sources of the server get the same messages, which are read once for all of them
    shared_with: int = 0


class LastError(BaseModel):
    """Why a pipeline ended the last time. It is forgotten when the pipeline has run for ten minutes and stored a
    checkpoint, and when it is changed, restarted or resumed."""

    message: str
    remedy: str
    #: the node that failed, if one did
    node: str
    at: datetime


class PipelineSummary(BaseModel):
    """A pipeline in a list."""

    namespace: str
    name: str
    desired: DesiredState
    state: State
    #: whether `state` is that of the newest version; a moment after a change it is still that of the former one
    current: bool
    #: whether the database could not be read after a change that failed: this may be older than what it contains
    stale: bool
    #: when the database could not be read for the first time
    stale_since: datetime | None
    reason: str
    error: str
    remedy: str
    #: the error of the last failure, also while the pipeline runs again; see `LastError`
    last_error: LastError | None
    ready: bool
    generation: int
    etag: str
    size: Size
    isolation: Isolation
    managed_by: ManagedBy
    #: restarts after failures, since `restarts_since`
    restarts: int
    #: when the user, or the server, started this version
    restarts_since: datetime | None
    #: when a pipeline that is `restarting` is started again
    next_attempt_at: datetime | None
    created_at: datetime
    updated_at: datetime
    state_since: datetime
    #: rows per sink that its target has acknowledged; the sum without those of dead-letter sinks, and that of these
    rows: dict[str, int]
    rows_out: int
    dead_letters: int
    rows_in: int | None
    lag: int | None
    epoch: int | None
    costs: Costs


class PipelineObject(PipelineSummary):
    """A pipeline."""

    definition: str
    config: dict[str, Any]


class PipelineList(BaseModel):
    items: list[PipelineSummary]
    next: str | None


class ProblemObject(BaseModel):
    """One error in a definition."""

    message: str
    line: int = 0
    column: int = 0
    node: str | None = None
    remedy: str | None = None


class Verdict(BaseModel):
    """The result of a check."""

    is_valid: bool
    problems: list[ProblemObject]


class AccessObject(BaseModel):
    """A token: its name, and what it may do."""

    name: str
    role: Role
    #: `*` stands for all of them
    namespaces: list[str]


class AuditObject(BaseModel):
    at: str
    actor: str
    action: str
    namespace: str
    name: str
    generation: int | None
    detail: str


class AuditList(BaseModel):
    items: list[AuditObject]


class SecretList(BaseModel):
    items: list[str]


class ErrorObject(BaseModel):
    code: str
    message: str
    remedy: str | None = None


class ErrorBody(BaseModel):
    """The body of every error; `problems` only if a definition is invalid."""

    error: ErrorObject
    problems: list[ProblemObject] = []
