"""What the catalogue stores: one record per pipeline."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from secrets import token_hex
from typing import Any, Final, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field

from streamling.errors import StreamlingError

Size = Literal["xs", "s", "m", "l", "xl"]
Isolation = Literal["shared", "process"]
DesiredState = Literal["running", "paused"]
ManagedBy = Literal["api", "dir"]
#: what happens to the state of a pipeline that is deleted
StateOnDelete = Literal["keep", "delete"]

DEFAULT_NAMESPACE = "default"


class NameRule(NamedTuple):
    """What a name may consist of: the whole name matches ``pattern``, in Python and in the browser."""

    pattern: str
    expected: str


_ENDS = "with a letter or digit first and last"
NAME_RULES: Final[Mapping[str, NameRule]] = {
    # no dots: the first dot of an application id ends the namespace
    "namespace": NameRule(
        "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", f"lower-case letters, digits and '-', at most 63 characters, {_ENDS}"
    ),
    "name": NameRule(
        "[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?",
        f"lower-case letters, digits, '-', '_' and '.', at most 128 characters, {_ENDS}",
    ),
}


class PipelineKey(NamedTuple):
    """The full name of a pipeline."""

    namespace: str
    name: str

    @classmethod
    def checked(cls, namespace: str, name: str) -> Self:
        """Return the key; raises if one of the names is invalid."""
        for what, found in (("namespace", namespace), ("name", name)):
            rule = NAME_RULES[what]
            if not re.fullmatch(rule.pattern, found):
                raise StreamlingError.user(
                    f"the {what} {found[:200]!r} is invalid, expected {rule.expected}",
                    remedy=f"choose another {what}; 'streamling apply' takes it from --{what}",
                )
        return cls(namespace, name)

    @property
    def application_id(self) -> str:
        """The name of the pipeline in the state, in consumer groups and in metrics."""
        return f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PipelineBody(BaseModel):
    """A pipeline as a client wants it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    definition: str = Field(description="The pipeline file, as YAML text.")
    config: dict[str, Any] = Field(default={}, description="Settings for this pipeline only.")
    size: Size = "m"
    isolation: Isolation = "shared"
    desired: DesiredState = "running"


class PipelineRecord(PipelineBody):
    """A pipeline in the catalogue, and what a runtime runs."""

    model_config = ConfigDict(extra="ignore")

    namespace: str
    name: str
    #: differs when a pipeline was deleted and created again
    uid: str
    managed_by: ManagedBy
    #: +1 for every change
    generation: int
    #: +1 for every change after which a running pipeline has to be replaced
    revision: int
    created_at: datetime
    updated_at: datetime
    #: set when the pipeline is being deleted
    deleting: StateOnDelete | None = None
    #: why the file of a folder cannot be used
    problem: str | None = None

    @classmethod
    def first(
        cls,
        key: PipelineKey,
        wanted: PipelineBody,
        now: datetime,
        managed_by: ManagedBy = "api",
        problem: str | None = None,
    ) -> Self:
        """Return the first version of a pipeline."""
        return cls(
            **wanted.model_dump(include=set(PipelineBody.model_fields)),
            namespace=key.namespace,
            name=key.name,
            uid=token_hex(4),
            managed_by=managed_by,
            generation=1,
            revision=1,
            created_at=now,
            updated_at=now,
            problem=problem,
        )

    @property
    def key(self) -> PipelineKey:
        return PipelineKey(self.namespace, self.name)

    @property
    def file(self) -> str:
        """What errors call the definition."""
        return f"{self.name}.yaml"

    @property
    def is_trusted(self) -> bool:
        """Whether the definition may use every environment variable: the operator wrote it."""
        return self.managed_by == "dir"

    @property
    def etag(self) -> str:
        return f'"{self.uid}-{self.generation}"'
