"""What a node connects to, so that it can be tried before a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ExternalPosition:
    """A position that a node also keeps outside of the state backend, such as the offsets of a consumer group."""

    #: what it is, as the object of a sentence
    what: str
    #: Forgets it; False when there was none. Called by `state reset`, while the pipeline does not run. Raises a
    #: `StreamlingError` when that is not possible.
    reset: Callable[[], bool]


@dataclass(frozen=True)
class ConnectionCheck:
    """A service that a node talks to, or a folder that it reads."""

    #: what it is: ``Postgres``, ``Kafka``, ``files``
    kind: str
    #: where it is, without credentials
    target: str
    #: Tries it and changes nothing. Raises a `StreamlingError` when the node could not use it; may return a remark for
    #: people, such as the number of partitions. Called once, on any thread; should give up after a few seconds.
    check: Callable[[], str | None]
    #: whether ``check`` asks for the Spark session; it is started first, so that its start is not measured
    uses_spark: bool = False
