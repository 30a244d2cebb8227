"""Logs where the partitions of a topic start, and why."""

from __future__ import annotations

from collections.abc import Mapping
from logging import Logger

from streamling.connectors.kafka.group.membership import format_partitions

#: maximum number of offsets that a line shows
_SHOWN = 8


class StartLog:
    """Logs one line per reason, for partitions that have not been read before."""

    def __init__(self, topic: str, log: Logger) -> None:
        self._topic = topic
        self._log = log
        self._known: set[int] = set()

    def report(self, offsets: Mapping[int, int], reasons: Mapping[int, str]) -> None:
        """Log that the partitions start at ``offsets``, for ``reasons``."""
        new = sorted(offsets.keys() - self._known)
        self._known |= offsets.keys()
        by_reason: dict[str, list[int]] = {}
        for partition in new:
            by_reason.setdefault(reasons[partition], []).append(partition)
        for reason, partitions in by_reason.items():
            shown = ", ".join(str(offsets[partition]) for partition in partitions)
            at = f" (offset {shown})" if len(partitions) <= _SHOWN else ""
            self._log.info(
                "reading %s of the topic '%s' from %s%s",
                format_partitions(frozenset(partitions)),
                self._topic,
                reason,
                at,
            )
