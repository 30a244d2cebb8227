"""What the catalogue stores: one record per pipeline."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict

from streamling.errors import StreamlingError

Size = Literal["xs", "s", "m", "l", "xl"]
Isolation = Literal["shared", "process"]
DesiredState = Literal["running", "paused"]
ManagedBy = Literal["api", "dir"]
#: what happens to the state of a pipeline that is deleted
StateOnDelete = Literal["keep", "delete"]

DEFAULT_NAMESPACE = "default"
#: no dots: the first dot of an application id ends the namespace
_NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,126}[a-z0-9])?")


class PipelineKey(NamedTuple):
    """The full name of a pipeline."""

    namespace: str
    name: str

    @classmethod
    def checked(cls, namespace: str, name: str) -> Self:
        """The key; raises if one of the names is invalid."""
        if not _NAMESPACE.fullmatch(namespace):
            raise _invalid("namespace", namespace, "lower-case letters, digits and '-', at most 63 characters")
        if not _NAME.fullmatch(name):
            raise _invalid("name", name, "lower-case letters, digits, '-', '_' and '.', at most 128 characters")
        return cls(namespace, name)

    @property
    def application_id(self) -> str:
        """The name of the pipeline in the state, in consumer groups and in metrics."""
        return f"{self.namespace}.{self.name}"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def _invalid(what: str, found: str, expected: str) -> StreamlingError:
    return StreamlingError.user(
        f"the {what} {found[:200]!r} is invalid, expected {expected}, with a letter or digit first and last"
    )


class Specification(BaseModel):
    """What a client decides about a pipeline."""

    model_config = ConfigDict(frozen=True)

    definition: str
    config: dict[str, Any] = {}
    size: Size = "m"
    isolation: Isolation = "shared"
    desired: DesiredState = "running"


class PipelineRecord(Specification):
    """A pipeline in the catalogue."""

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

    @property
    def key(self) -> PipelineKey:
        return PipelineKey(self.namespace, self.name)

    @property
    def etag(self) -> str:
        return f'"{self.uid}-{self.generation}"'
