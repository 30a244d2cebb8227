"""An operator goes around the limits of the server with fields of nodes, which `config` cannot raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamling.serve.sizes import SIZES
from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.definitions import KAFKA_SOURCE, to_handler, to_sink

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_BLACKHOLE = "type: blackhole"


def _script(folder: Path, more: str) -> str:
    return f"""
sources:
  rows: {{type: file, format: csv, path: "{folder}/orders", primary_key: id}}
transforms:
  tagged:
    type: script
    from: rows
    primary_key: id
    language: javascript
    script: "function invoke(row) {{ return row }}"
    {more}
sinks:
  out: {{type: blackhole, from: tagged}}
"""


def _definition(folder: Path, node: str, field: str, value: int) -> str:
    more = f"{field}: {value}"
    return {
        "kafka source 'rows'": KAFKA_SOURCE.replace("topic: rows", f"topic: rows, {more}"),
        "script transform 'tagged'": _script(folder, more),
        "handler transform 'called'": to_handler(folder, "http://127.0.0.1:1", f", {more}"),
        "blackhole sink 'out'": to_sink(folder, f"{_BLACKHOLE}, {more}"),
        "postgres sink 'out'": to_sink(folder, f"type: postgres, schema: public, table: rows, primary_key: id, {more}"),
        "kafka sink 'out'": to_sink(folder, f"type: kafka, topic: rows, data_format: json, {more}"),
    }[node]


_ATTEMPTS = (
    ("kafka source 'rows'", "parallelism", 1_000_000, 32),
    ("kafka source 'rows'", "batch_size", 4_294_967_295, 1_000_000),
    ("script transform 'tagged'", "parallelism", 10_000, 32),
    ("script transform 'tagged'", "batch_size", 2_000_000_000, 1_000_000),
    ("handler transform 'called'", "parallelism", 33, 32),
    ("handler transform 'called'", "batch_size", 1_000_001, 1_000_000),
    ("blackhole sink 'out'", "parallelism", 100_000, 32),
    ("postgres sink 'out'", "batch_size", 10**12, 1_000_000),
    ("kafka sink 'out'", "batch_size", 10**9, 1_000_000),
)


@pytest.mark.parametrize(
    ("request_", "attempt"),
    [
        (request, attempt)
        for request in ("create", "validate", "preview")
        for attempt in _ATTEMPTS
        if request != "preview" or "sink" not in attempt[0]  # a preview has no sinks
    ],
)
def test_an_operator_exceeds_the_largest_size_with_a_field_of_a_node(evil: Attacker, request_, attempt):
    node, field, value, bound = attempt
    more = {"size": "xl"} if request_ == "create" else {}
    outcome = getattr(evil, request_)(_definition(evil.server.folder, node, field, value), **more)
    assert f"{node}: {field} is {value}, but a pipeline of this size may use at most {bound}" in outcome.texts
    assert "use a smaller value, or a larger size for the pipeline" in outcome.texts
    assert outcome.status == (200 if request_ == "validate" else 422)


@pytest.mark.parametrize(("size", "rows", "instances"), [("xs", 10_000, 2), ("s", 50_000, 4), ("m", 200_000, 8)])
def test_an_operator_uses_more_than_his_size(evil: Attacker, size, rows, instances):
    definition = to_sink(evil.server.folder, f"{_BLACKHOLE}, parallelism: {instances + 1}, batch_size: {rows + 1}")
    outcome = evil.create(definition, size=size)
    assert outcome.status == 422
    assert f"parallelism is {instances + 1}, but a pipeline of this size may use at most {instances}" in outcome.texts
    assert f"batch_size is {rows + 1}, but a pipeline of this size may use at most {rows}" in outcome.texts


@pytest.mark.parametrize("size", SIZES)
def test_all_of_a_size_may_be_used(evil: Attacker, size):
    """Otherwise the tests above would also pass if nothing were allowed."""
    limits = SIZES[size]
    more = f"parallelism: {limits.instances}, batch_size: {limits.rows or 200_000}"
    assert evil.create(to_sink(evil.server.folder, f"{_BLACKHOLE}, {more}"), size=size).status == 201
