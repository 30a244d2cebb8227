"""Dead-letter sinks: which sink takes the rows that a node rejects (`errors: {to: SINK}`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from streamling.errors import Problem
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.suggest import did_you_mean, listing
from streamling.pipeline.graph import resolve
from streamling.pipeline.model import NodeKind
from streamling.pipeline.nodes import Draft
from streamling.pipeline.validation_errors import problem_at

#: the key of rejected rows: a row that is replayed after a restart has the same key
KEY: Final = ("id",)


def dead_letters_of(draft: Draft, by_name: Mapping[str, Draft], problems: list[Problem]) -> str | None:
    """Return the declared name of the sink that takes the rejected rows of ``draft``."""
    reference = target_in(draft.raw)
    if reference is None:
        return None
    location = draft.document.entry_location((*draft.path, "errors", "to")).value
    name = resolve(reference, by_name)
    sinks = [each.name for each in by_name.values() if each.kind is NodeKind.SINK and each is not draft]
    if name is None:
        remedy = did_you_mean(reference, sinks, f"sinks: {listing(sinks)}")
        message = f"{draft} sends bad rows to '{reference}', and there is no such sink"
        problems.append(problem_at(message, location, remedy))
        return None
    sink = by_name[name]
    if sink is draft or sink.kind is not NodeKind.SINK:
        what = "itself" if sink is draft else f"'{name}', which is a {sink.kind}"
        problems.append(problem_at(f"{draft} sends bad rows to {what}", location, "name another sink"))
        return None
    return name


def sink_problems(drafts: Sequence[Draft], by_name: Mapping[str, Draft]) -> list[Problem]:
    """Return what is wrong with the inputs of sinks. Each takes the rows of a node, or the rejected rows of some
    nodes."""
    rejecting: dict[str, list[Draft]] = {}
    lost = False
    for draft in drafts:
        name = resolve(target_in(draft.raw) or "", by_name)
        if name is not None and by_name[name].kind is NodeKind.SINK and by_name[name] is not draft:
            rejecting.setdefault(name, []).append(draft)
        elif target_in(draft.raw) is not None or (draft.options is None and "errors" in (draft.raw or ())):
            lost = True
    problems = []
    for sink in drafts:
        if sink.kind is NodeKind.SINK and sink.options is not None:
            of = rejecting.get(sink.name, [])
            # a sink without references may be the one that a misspelt `errors` means; that error is enough
            if sink.raw.get("from") is None and not of and not lost:
                remedy = "add it: Name of the source or transform whose rows this node takes."
                problems.append(problem_at(f"{sink}: the field 'from' is missing", sink.location, remedy))
            problems += _dead_letter_problems(sink, of)
    return problems


def _dead_letter_problems(sink: Draft, rejecting: Sequence[Draft]) -> list[Problem]:
    problems = []
    if rejecting and sink.raw.get("from") is not None:
        message = f"{sink} takes the bad rows of {_names(rejecting)}, and cannot take those of another node as well"
        remedy = "remove 'from', or write bad rows to a sink of their own"
        problems.append(problem_at(message, _place(sink, "from"), remedy))
    if rejecting and target_in(sink.raw) is not None:
        message = f"{sink} takes the bad rows of {_names(rejecting)}, and cannot have a dead-letter sink itself"
        problems.append(problem_at(message, _place(sink, "errors"), "remove 'errors'"))
    return problems


def target_in(raw: Any) -> str | None:
    """Return the value of `errors.to`, also of a node that has other errors."""
    errors = raw.get("errors") if isinstance(raw, dict) else None
    to = errors.get("to") if isinstance(errors, dict) else None
    return to if isinstance(to, str) else None


def _names(drafts: Sequence[Draft]) -> str:
    return listing(f"'{draft.name}'" for draft in drafts)


def _place(draft: Draft, field: str) -> Location:
    return draft.document.entry_location((*draft.path, field)).key
