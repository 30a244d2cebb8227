"""Holds a flow back until the tables in which its rows look values up are filled with what existed at the start.

A table that another source fills is empty when both flows start, and every row that looks a value up in it would be
dropped. So the flow delivers nothing until each flow that fills the table has read what its source had at the start (of
a bounded source: everything).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from streamling.pipeline.graph import resolve
from streamling.pipeline.model import Pipeline

if TYPE_CHECKING:
    from streamling.engine.dataflow.flow import Flow
    from streamling.engine.dataflow.side_outputs import SideOutputNode

log = logging.getLogger(__name__)

#: seconds between two log lines about the same wait
_LOG_INTERVAL = 30.0


@dataclass(frozen=True)
class TableFeed:
    """A table and the flows whose rows fill it."""

    table: SideOutputNode
    flows: Sequence[Flow[Any]]

    def is_filled(self) -> bool:
        return all(flow.has_filled(self.table) for flow in self.flows)


class TableGate:
    """Holds one flow back. `is_open` may be called from any thread."""

    def __init__(self, flow: Flow[Any], feeds: Sequence[TableFeed]) -> None:
        self._flow = flow.name
        self._feeds = feeds
        self._logged: float | None = None
        self._open = False

    def is_open(self) -> bool:
        if self._open:
            return True
        missing = [feed for feed in self._feeds if not feed.is_filled()]
        self._log(missing)
        self._open = not missing
        return self._open

    def _log(self, missing: Sequence[TableFeed]) -> None:
        now = time.monotonic()
        if not missing and self._logged is not None:
            log.info("source '%s': the tables that its rows query are filled; delivering rows", self._flow)
        elif missing and (self._logged is None or now - self._logged >= _LOG_INTERVAL):
            self._logged = now
            waits = ", ".join(f"'{feed.table.node.name}' from {_listed(feed)}" for feed in missing)
            log.info(
                "source '%s' waits until the tables that its rows query are filled: %s (set wait_for_table: false to "
                "turn this off)",
                self._flow,
                waits,
            )


def _listed(feed: TableFeed) -> str:
    return " and ".join(f"'{flow.name}'" for flow in feed.flows if not flow.has_filled(feed.table))


def awaited_tables(pipeline: Pipeline, tables: Collection[str]) -> dict[str, dict[str, frozenset[str]]]:
    """Return for each source those of ``tables`` that its rows query, with the sources that fill them. A source does
    not wait for itself, nor for one that waits for it."""
    origins = _origins(pipeline)
    queried: dict[str, dict[str, frozenset[str]]] = {}
    for node in pipeline:
        for lookup in node.options.lookups():
            table = resolve(lookup.table, list(tables))
            if table is None or not pipeline[table].upstreams:
                continue
            for source in origins[node.name]:
                feeders = origins[table] - {source}
                if feeders:
                    queried.setdefault(source, {})[table] = feeders
    return _without_cycles(queried)


def _origins(pipeline: Pipeline) -> dict[str, frozenset[str]]:
    origins: dict[str, frozenset[str]] = {}
    for node in pipeline:
        above = (origins[upstream] for upstream in node.upstreams)
        origins[node.name] = frozenset[str]().union(*above) if node.upstreams else frozenset({node.name})
    return origins


def _without_cycles(queried: Mapping[str, Mapping[str, frozenset[str]]]) -> dict[str, dict[str, frozenset[str]]]:
    waits = {source: frozenset[str]().union(*tables.values()) for source, tables in queried.items()}
    kept: dict[str, dict[str, frozenset[str]]] = {}
    for source, tables in queried.items():
        for table, feeders in tables.items():
            mutual = {feeder for feeder in feeders if source in _reached(feeder, waits)}
            if mutual:
                log.warning(
                    "'%s' does not wait for the table '%s', which is filled from %s: that source waits for '%s'",
                    source,
                    table,
                    " and ".join(f"'{name}'" for name in sorted(mutual)),
                    source,
                )
            if left := feeders - mutual:
                kept.setdefault(source, {})[table] = left
    return kept


def _reached(start: str, waits: Mapping[str, frozenset[str]]) -> set[str]:
    """Return everything that ``start`` waits for, directly or not."""
    reached: set[str] = set()
    ahead = [start]
    while ahead:
        for name in waits.get(ahead.pop(), frozenset()):
            if name not in reached:
                reached.add(name)
                ahead.append(name)
    return reached
