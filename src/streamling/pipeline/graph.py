"""The graph of nodes: names as users write them, cycles, order."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

_QUOTES = "\"'`"


def canonical(name: str) -> str:
    """Return ``name`` as it is compared: quotes around its dotted parts stripped, case folded.

    >>> canonical('"Raw".transactions')
    'raw.transactions'
    """
    return ".".join(part.strip().strip(_QUOTES) for part in name.split(".")).casefold()


def resolve(reference: str, names: Iterable[str]) -> str | None:
    """Return the declared name that ``reference`` means: the same, otherwise one that differs in case or quotes."""
    names = list(names)
    if reference in names:
        return reference
    wanted = canonical(reference)
    return next((name for name in names if canonical(name) == wanted), None)


def find_cycle(upstreams: Mapping[str, Sequence[str]]) -> list[str] | None:
    """Return a cycle, in the direction in which rows would flow; None if there is none."""
    try:
        TopologicalSorter(upstreams).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]
        return cycle
    return None


def topological_order(upstreams: Mapping[str, Sequence[str]]) -> list[str]:
    """Return every name after its upstreams, otherwise in the given order. The graph must have no cycle."""
    position = {name: index for index, name in enumerate(upstreams)}
    names = list(upstreams)
    waiting_for = {name: len(set(read)) for name, read in upstreams.items()}
    readers: dict[str, list[str]] = {}
    for name, read in upstreams.items():
        for upstream in set(read):
            readers.setdefault(upstream, []).append(name)
    ready = [position[name] for name, count in waiting_for.items() if not count]
    order: list[str] = []
    while ready:
        name = names[heapq.heappop(ready)]
        order.append(name)
        for reader in readers.get(name, ()):
            waiting_for[reader] -= 1
            if not waiting_for[reader]:
                heapq.heappush(ready, position[reader])
    return order
