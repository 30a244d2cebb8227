"""Formats a snapshot for Prometheus (text exposition format 0.0.4)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from streamling.observe.telemetry.catalogue import MILLISECONDS, PREFIX, meaning_of, unit_of
from streamling.observe.telemetry.metrics import BUCKETS, Distribution, Kind, Series
from streamling.redaction import redact

_UNITS = {MILLISECONDS: "_milliseconds"}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_:]")
_NOT_IN_LABELS = re.compile(r"[^a-zA-Z0-9_]")


def exposition(snapshot: Iterable[Series], tags: Mapping[str, str] | None = None) -> str:
    """Return the text, in an order independent of ``snapshot``; secrets in label values are masked. ``tags`` are added
    to every series that does not have them."""
    families: dict[str, list[Series]] = {}
    for series in snapshot:
        families.setdefault(family(series.name, series.kind), []).append(series)
    return "".join(line + "\n" for name in sorted(families) for line in _family(name, families[name], tags or {}))


def family(name: str, kind: Kind) -> str:
    """Return the Prometheus name of the metric ``name``.

    >>> family("output_rows", "counter"), family("http_request_latency", "histogram")
    ('streamling_output_rows_total', 'streamling_http_request_latency_milliseconds')
    """
    legal = _NOT_IN_NAMES.sub("_", PREFIX + name)
    legal = _ending(legal, _UNITS.get(unit_of(name, kind), ""))
    return _ending(legal, "_total") if kind == "counter" else legal


def _ending(name: str, suffix: str) -> str:
    return name if name.endswith(suffix) else name + suffix


def _family(name: str, members: list[Series], tags: Mapping[str, str]) -> Iterator[str]:
    meaning = meaning_of(members[0].name)
    if meaning:
        yield f"# HELP {name} {_escaped(meaning)}"
    yield f"# TYPE {name} {members[0].kind}"
    by_labels = {_labels({**tags, **series.tags}): series.value for series in members}
    for labels in sorted(by_labels):
        value = by_labels[labels]
        if isinstance(value, Distribution):
            yield from _histogram(name, labels, value)
        else:
            yield f"{name}{_braces(labels)} {_number(value)}"


def _histogram(name: str, labels: str, value: Distribution) -> Iterator[str]:
    reached = 0
    for bound, count in zip((*map(str, BUCKETS), "+Inf"), value.buckets, strict=True):
        reached += count
        bucket = f'le="{bound}"'
        yield f"{name}_bucket{_braces(f'{labels},{bucket}' if labels else bucket)} {reached}"
    yield f"{name}_sum{_braces(labels)} {_number(value.sum)}"
    yield f"{name}_count{_braces(labels)} {value.count}"


def _labels(tags: Mapping[str, str]) -> str:
    legal = {_label(key): value for key, value in tags.items()}
    # only the values: a secret may also be a part of a name, such as `operator`
    return ",".join(f'{key}="{_quoted(redact(legal[key]))}"' for key in sorted(legal))


def _label(key: str) -> str:
    legal = _NOT_IN_LABELS.sub("_", key)
    return f"_{legal}" if legal[:1].isdigit() else legal


def _braces(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)
