"""The status of a run at one moment, as numbers and in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from streamling.engine.checkpoint.checkpointer import Checkpointer
from streamling.engine.planning.execution_graph import ExecutionGraph
from streamling.pipeline.model import Pipeline
from streamling.plugins.delivery import Delivery
from streamling.plugins.sources import Progress


@dataclass(frozen=True)
class RunStatus:
    """Numbers of rows are since the start."""

    #: rows that sources have delivered; None if unknown
    rows_in: int | None = None
    #: rows that the targets of sinks have acknowledged, without dead letters
    rows_out: int = 0
    dead_letters: int = 0
    #: rows that sinks did not send: later rows of the batch replace them, or their options leave them out
    deduplicated: int = 0
    skipped: int = 0
    #: rows or messages that the sources have not read yet, as far as known
    lag: int | None = None
    #: seconds since the last checkpoint; None before the first
    checkpoint_age: float | None = None
    #: the last checkpoint since the start; None before the first
    epoch: int | None = None
    #: of bounded sources
    progress: Progress | None = None


def current_status(
    pipeline: Pipeline, graph: ExecutionGraph, checkpointer: Checkpointer | None, progress: Progress | None
) -> RunStatus:
    """Return the status of the running parts of ``pipeline``; there is no ``checkpointer`` before the start."""
    flows = list(graph.flows.values())
    written, dead = Delivery(), Delivery()
    for sink in pipeline.sinks:
        if pipeline.rejecting_nodes(sink.name):
            dead += graph.deliveries(sink.name)
        else:
            written += graph.deliveries(sink.name)
    return RunStatus(
        rows_in=sum_known(flow.rows_in for flow in flows),
        rows_out=written.delivered,
        dead_letters=dead.delivered,
        deduplicated=written.deduplicated,
        skipped=written.skipped,
        lag=sum_known(flow.source.lag() for flow in flows),
        checkpoint_age=checkpointer.age() if checkpointer is not None else None,
        epoch=checkpointer.epoch if checkpointer is not None else None,
        progress=progress,
    )


def summary(pipeline: Pipeline, graph: ExecutionGraph) -> str:
    """Return the rows per sink, for people: ``2 to out (3 deduplicated), 1 dead letter to bad``."""
    parts = []
    for name in (sink.name for sink in pipeline.sinks):
        delivery = graph.deliveries(name)
        rows = delivery.delivered
        letters = "" if not pipeline.rejecting_nodes(name) else " dead letter" if rows == 1 else " dead letters"
        others = {"deduplicated": delivery.deduplicated, "skipped": delivery.skipped}
        notes = ", ".join(f"{count:,} {what}" for what, count in others.items() if count)
        parts.append(f"{rows:,}{letters} to {name}" + (f" ({notes})" if notes else ""))
    return ", ".join(parts)


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of the known numbers; None if there are none."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def total_progress(known: Sequence[Progress]) -> Progress | None:
    """Return the progress of several sources together: of those that have not ended, if any. Different units cannot be
    added; the one with the largest total counts."""
    running = [progress for progress in known if progress.done < progress.total] or known
    if not running:
        return None
    unit = max(running, key=lambda progress: progress.total).unit
    running = [progress for progress in running if progress.unit == unit]
    if len(running) == 1:
        return running[0]
    return Progress(sum(one.done for one in running), sum(one.total for one in running), unit)
