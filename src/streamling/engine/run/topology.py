"""The topology of a run as the admin API shows it: nodes, edges, rates, and who waits for whom."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final

from streamling.engine.planning.description import shown_options
from streamling.engine.run.run import PipelineRun
from streamling.observe.history import History, NodeSample, Sample, Shares, Window
from streamling.observe.rate_history import Counts, RunCounts
from streamling.pipeline.model import Node
from streamling.plugins.sources import Progress
from streamling.redaction import redact

#: a node waits if it does so for at least this share of its time
_WAITS: Final = 0.5
_FRESH_SECONDS: Final = 0.5


class Topology:
    """Describes one run. `describe` may be called from one thread at a time."""

    def __init__(self, run: PipelineRun) -> None:
        self._run = run
        self._began = time.monotonic()
        self._history = History(self._began)
        #: the last descriptions, with and without fields that never change, and when they were made
        self._last: dict[bool, tuple[float, dict[str, Any]]] = {}

    def nodes_and_history(self, *, full: bool) -> dict[str, Any]:
        """Return nodes, edges and history; without ``full``, nodes have no fields that never change. Clients that ask
        within half a second get the same."""
        now = time.monotonic()
        made, described = self._last.get(full, (0.0, {}))
        if now - made < _FRESH_SECONDS:
            return described
        self._last[full] = now, self._described(now, full=full)
        return self._last[full][1]

    def _described(self, now: float, *, full: bool) -> dict[str, Any]:
        sample = self._sample(now)
        window = Window(self._history.add(sample), sample)
        nodes = [self._node(node, window, full=full) for node in self._run.pipeline]
        return {
            "nodes": nodes,
            "edges": list(self._edges(window)),
            "history": self._history.series(now),
        }

    def counts(self) -> RunCounts:
        """Return the counts of the run and of its nodes so far."""
        rows, status = self._rows(), self._run.status()
        nodes = {name: Counts(*each, self._lag(name)) for name, each in rows.items()}
        rows_in = sum(rows[node.name][1] for node in self._run.pipeline.sources)
        return RunCounts(Counts(rows_in, status.rows_out, status.lag), nodes)

    # ── totals ──────────────────────────────────────────────────────────────────────────────────────────────

    def _sample(self, now: float) -> Sample:
        run = self._run
        rows = self._rows()
        nodes = {}
        for node in run.pipeline:
            spent = run.observer.activities[node.name].spent()
            rejected = run.observer.dead_letters.count(node.name)
            nodes[node.name] = NodeSample(*rows[node.name], spent.busy, spent.starved, spent.blocked_total, rejected)
        status = run.status()
        return Sample(
            now,
            nodes,
            rows_in=sum(nodes[node.name].rows_out for node in run.pipeline.sources),
            rows_out=status.rows_out,
            lag=status.lag,
        )

    def _rows(self) -> Mapping[str, tuple[int, int]]:
        """Return the rows in and out of every node. Rows that stay inside a plan of Spark are not counted: they are
        those that the nodes around it have counted."""
        pipeline, rows_in, rows_out = self._run.pipeline, {}, {}
        for node in reversed(pipeline.nodes):
            rows_in[node.name] = self._counted("input_rows", node.name)
            after = [rows_in[each.name] for each in pipeline.consumers(node.name) if len(each.upstreams) == 1]
            rows_out[node.name] = max([self._counted("output_rows", node.name), *after])
        for node in pipeline:
            if node.upstreams:
                rows_in[node.name] = max(rows_in[node.name], sum(rows_out[name] for name in node.upstreams))
            elif node.kind.has_output:
                rows_in[node.name] = rows_out[node.name] = max(rows_out[node.name], self._delivered(node.name))
        return {name: (rows_in[name], rows_out[name]) for name in rows_in}

    def _counted(self, name: str, node: str) -> int:
        value = self._run.metrics.value(name, node)
        return int(value) if isinstance(value, int | float) else 0

    def _delivered(self, source: str) -> int:
        flows = [flow for flow in self._run.graph.flows.values() if flow.node.name == source]
        rejected = self._run.observer.dead_letters.count(source)
        return max(0, sum(flow.rows_in or 0 for flow in flows) - rejected)

    # ── nodes and edges ─────────────────────────────────────────────────────────────────────────────────────

    def _node(self, node: Node, window: Window, *, full: bool) -> dict[str, Any]:
        run, name = self._run, node.name
        activity = run.observer.activities[name]
        lanes = [lane for lane in run.graph.lanes if lane.node.name == name]
        shares = window.shares(name, threads=self._threads(name))
        status, reason = self._status(node, shares)
        new = window.new.nodes[name]
        delivery = run.graph.deliveries(name)
        described: dict[str, Any] = {
            "name": name,
            "kind": node.kind.value,
            "type": node.type,
            "instances": max(1, len(lanes), node.options.instance_count),
            "location": f"{node.location.file}:{node.location.line}",
            "rows_in": new.rows_in,
            "rows_out": new.rows_out,
            "rate_in": window.rate(name, "rows_in"),
            "rate_out": window.rate(name, "rows_out"),
            "busy": shares.busy,
            "blocked": shares.blocked,
            "starved": shares.starved,
            "status": status,
            "status_reason": redact(reason),
            "lag": self._lag(name),
            "progress": self._progress(name),
            "rejected": run.observer.dead_letters.count(name),
            "deduplicated": delivery.deduplicated,
            "skipped": delivery.skipped,
            "takes_dead_letters": bool(run.pipeline.rejecting_nodes(name)),
            "queue": {
                "length": sum(lane.queued for lane in lanes),
                "capacity": sum(lane.queue_length for lane in lanes),
            },
            "batch": {"rows": activity.last_rows, "ms": round(activity.last_seconds * 1000, 1)},
            "event_time": self._event_time(name),
        }
        return {**described, **self._constant[name]} if full else described

    @cached_property
    def _constant(self) -> Mapping[str, Mapping[str, Any]]:
        return {node.name: self._constant_fields(node) for node in self._run.pipeline}

    def _constant_fields(self, node: Node) -> Mapping[str, Any]:
        analysis, operators = self._run.analysis, self._run.graph.operators.get(node.name)
        planned = None if analysis is None else analysis.nodes.get(node.name)
        labels = operators[0].labels() if operators else {}
        schema = [] if planned is None else planned.schema
        return {
            "description": redact(", ".join(f"{key} {value}" for key, value in labels.items())),
            "schema": [
                {"name": column.name, "type": str(column.type), "nullable": column.nullable} for column in schema
            ],
            "definition": redact(_definition(node)),
        }

    def _edges(self, window: Window) -> Iterator[dict[str, Any]]:
        for node in self._run.pipeline:
            for upstream in node.upstreams:
                yield _edge(window, upstream, node.name, "rows", "rows_out")
            for rejecting in self._run.pipeline.rejecting_nodes(node.name):
                yield _edge(window, rejecting.name, node.name, "rejected", "rejected")

    # ── state of a node ─────────────────────────────────────────────────────────────────────────────────────

    def _status(self, node: Node, shares: Shares) -> tuple[str, str]:
        run = self._run
        failure = run.failure
        if failure is not None and failure.node is not None and failure.node.name == node.name:
            return "failed", failure.with_causes
        if (error := run.retrying.errors.get(node.name)) is not None:
            return "retrying", error.with_causes
        if run.has_ended or self._has_ended(node):
            return "finished", ""
        if shares.blocked >= _WAITS:
            waits = run.observer.activities[node.name].spent().blocked or {}
            return "blocked", f"waits for '{max(waits, key=lambda name: waits[name])}'" if waits else ""
        if shares.starved >= _WAITS:
            where = " and ".join(f"'{name}'" for name in node.upstreams)
            return "starved", f"waits for rows of {where}" if where else "no new rows"
        return "ok", ""

    def _has_ended(self, node: Node) -> bool:
        return not node.kind.has_input and bool(self._run.graph.flows) and self._run.has_source_ended(node.name)

    def _threads(self, name: str) -> int:
        """Return threads of the node; 0 if Spark runs it on those of its sources."""
        graph = self._run.graph
        lanes = sum(lane.node.name == name for lane in graph.lanes)
        return lanes or sum(flow.node.name == name for flow in graph.flows.values())

    def _lag(self, name: str) -> int | None:
        known = [flow.source.lag() for flow in self._run.graph.flows.values() if flow.node.name == name]
        return sum(lag for lag in known if lag is not None) if any(lag is not None for lag in known) else None

    def _event_time(self, name: str) -> dict[str, Any] | None:
        times = self._run.observer.event_times.get(name)
        if times is None or times.watermark is None:
            return None
        latest = datetime.fromtimestamp(times.watermark / 1000, UTC)
        lag = round(time.time() - times.watermark / 1000, 1)
        return {"watermark": latest.isoformat(timespec="milliseconds"), "lag_s": lag}

    def _progress(self, name: str) -> dict[str, Any] | None:
        flows = self._run.graph.flows.values()
        found = [progress for flow in flows if flow.node.name == name and (progress := flow.source.progress())]
        return self._shown_progress(found[0]) if found else None

    def _shown_progress(self, progress: Progress) -> dict[str, Any]:
        elapsed, left = time.monotonic() - self._began, progress.total - progress.done
        seconds = round(elapsed * left / progress.done, 1) if progress.done else None
        return {**vars(progress), "seconds_left": seconds}


def _edge(window: Window, upstream: str, node: str, kind: str, field: str) -> dict[str, Any]:
    rows = getattr(window.new.nodes[upstream], field)
    return {"from": upstream, "to": node, "kind": kind, "rows": rows, "rate": window.rate(upstream, field)}


def _definition(node: Node) -> str:
    """Return the program of a node, or its fields as YAML."""
    for field in ("sql", "script"):
        if isinstance(text := getattr(node.options, field, None), str):
            return text
    import yaml

    return yaml.safe_dump(shown_options(node), sort_keys=False, allow_unicode=True)
