"""What a node connects to, so that the connection can be checked before a pipeline runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class ExternalPosition:
    """A position that a node also stores outside of the state backend, such as the offsets of a consumer group."""

    #: what it is, as the object of a sentence
    what: str
    #: Removes it; False if there was none. Called by `state reset`, while the pipeline does not run. Raises a
    #: `StreamlingError` if that is not possible.
    reset: Callable[[], bool]


@dataclass(frozen=True)
class ConnectionCheck:
    """A service that a node uses, or a folder that it reads."""

    #: what it is: ``Postgres``, ``Kafka``, ``files``
    kind: str
    #: where it is, without credentials
    target: str
    #: Tries to connect and changes nothing. Raises a `StreamlingError` if the node could not use it; may return a
    #: remark for people, such as the number of partitions. Called once, on any thread; should time out after a few
    #: seconds.
    check: Callable[[], str | None]
    #: whether ``check`` uses the Spark session, which is started first, so that its start is not measured
    uses_spark: bool = False
