"""Unexpected rows and responses: each is a dead letter, or an error that names node and row."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
import yaml

from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.harness import NoSpark
from streamling.engine.run.run import PipelineRun
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SourceOptions
from streamling.plugins.registry import Registry
from streamling.plugins.sources import END, Source, SourceBatch
from tests.harness.endpoint import Reply, Request, echo, endpoint
from tests.harness.pipelines import Bench
from tests.paths import TESTS

CORPUS = TESTS / "corpus/http"
ANSWERS: list[dict[str, Any]] = yaml.safe_load((CORPUS / "rows.yaml").read_text(encoding="utf-8"))
_BAD = {"errors": {"to": "bad"}}

#: days since 1970, microseconds since 1970; the middle ones are the limits of the years 1 to 9999
DAYS = [-(2**31), -719_163, -719_162, 0, 2_932_896, 2_932_897, 2**31 - 1]
MOMENTS = [
    -(2**63),
    -62_135_596_800_000_001,
    -62_135_596_800_000_000,
    0,
    253_402_300_799_999_999,
    253_402_300_800_000_000,
]
MOMENTS += [2**63 - 1]
POISON = pa.record_batch(
    {
        "id": pa.array(range(14), pa.int64()),
        "day": pa.array([*DAYS, *[0] * 7], pa.int32()).cast(pa.date32()),
        "at": pa.array([*[0] * 7, *MOMENTS], pa.int64()).cast(pa.timestamp("us")),
        "days": pa.array([[day] for day in [*DAYS, *[0] * 7]], pa.list_(pa.int32())).cast(pa.list_(pa.date32())),
    }
)
GOOD = [2, 3, 4, 9, 10, 11]


class PoisonOptions(SourceOptions):
    column: str = ""


class PoisonSource(Source[PoisonOptions]):
    """Dates and timestamps, some of them outside the years 1 to 9999."""

    Options = PoisonOptions
    bounded = True

    def _rows(self) -> pa.RecordBatch:
        return POISON if not self.options.column else POISON.select(["id", self.options.column])

    def schema(self) -> pa.Schema:
        return self._rows().schema

    def read(self, position: Mapping[str, Any]) -> Any:
        return END if position else SourceBatch(self._rows(), {self.context.name: 1})


class PoisonBench(Bench):
    def registry(self) -> Registry:
        registry = super().registry()
        registry.register(NodeKind.SOURCE, "poison", PoisonSource)
        return registry


def run(transforms: Mapping[str, Any], source: Mapping[str, Any]) -> PipelineRun:
    sinks = {f"to_{name}": {"type": "memory", "from": name} for name in transforms}
    if any("errors" in node for node in transforms.values()):
        sinks["bad"] = {"type": "memory"}
    nodes = {"sources": {"rows": {"primary_key": "id", **source}}, "transforms": transforms, "sinks": sinks}
    return PoisonBench(NoSpark()).run(json.dumps(nodes))


def script(text: str = "row => row", **fields: Any) -> dict[str, Any]:
    return {"type": "script", "from": "rows", "primary_key": "id", "language": "js", "script": text, **fields}


def handler(url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "handler", "from": "rows", "primary_key": "id", "url": url, **fields}


def test_dates_out_of_range_are_dead_letters_of_scripts_and_handlers():
    with endpoint(echo) as server:
        made = run({"scripted": script(**_BAD), "asked": handler(server.url, **_BAD)}, {"type": "poison"})
    bad = collected_rows(made, "bad").to_pylist()
    for node in ("scripted", "asked"):
        assert collected_rows(made, f"to_{node}")["id"].to_pylist() == GOOD, node
        letters = {row["position"]: row for row in bad if row["node"] == node}
        assert set(letters) == {f"id={n}" for n in range(14) if n not in GOOD}, node
        assert json.loads(letters["id=5"]["payload"])["day"] == "+10000-01-01", node
        assert json.loads(letters["id=13"]["payload"])["at"] == "+294247-01-10T04:00:54.775807", node


@pytest.mark.parametrize("column", ["day", "at", "days"])
def test_without_a_dead_letter_sink_dates_out_of_range_are_errors_that_name_node_and_row(column):
    row = 8 if column == "at" else 1
    with pytest.raises(
        StreamlingError, match=f"script transform 'scripted': row {row} of the batch: .*'{column}'"
    ) as raised:
        run({"scripted": script()}, {"type": "poison", "column": column})
    assert not raised.value.internal
    with (
        endpoint(echo) as server,
        pytest.raises(StreamlingError, match=f"handler transform 'asked': .*'{column}'.*row {row}"),
    ):
        run({"asked": handler(server.url)}, {"type": "poison", "column": column})


def body(case: Mapping[str, Any], id: int) -> bytes:
    deep = "[" * case.get("deep", 0) + "]" * case.get("deep", 0)
    digits = "9" * case.get("digits", 0)
    return case["answer"].replace("ID", str(id)).replace("DEEP", deep).replace("DIGITS", digits).encode()


def answer(request: Request) -> Reply:
    return Reply(text=body(ANSWERS[request.rows[0]["id"]], request.rows[0]["id"]))


_ADDED = {"schema_override": {"at": "timestamp", "day": "date32"}}


def test_every_poison_response_is_a_dead_letter_with_its_position():
    with endpoint(answer) as server:
        asked = handler(server.url, one_row_per_request=True, **_ADDED, **_BAD)
        made = run({"asked": asked}, {"type": "numbers", "rows": len(ANSWERS), "batch": 50})
    arrived = {row["id"]: row["name"] for row in collected_rows(made, "to_asked").to_pylist()}
    letters = {row["position"]: row["error"] for row in collected_rows(made, "bad").to_pylist()}
    assert len(arrived) + len(letters) == len(ANSWERS)
    for id, case in enumerate(ANSWERS):
        if "error" in case:
            assert re.search(case["error"], letters[f"id={id}"]), case
        else:
            assert arrived[id] == case["name"], case


@pytest.mark.parametrize("case", [case for case in ANSWERS if "error" in case], ids=lambda case: case["answer"][:60])
def test_without_a_dead_letter_sink_a_poison_response_is_an_error_that_names_the_node(case):
    with (
        endpoint(lambda request: Reply(text=body(case, 0))) as server,
        pytest.raises(StreamlingError, match=case["error"]) as raised,
    ):
        run({"asked": handler(server.url, one_row_per_request=True, **_ADDED)}, {"type": "numbers", "rows": 1})
    assert not raised.value.internal
    assert "handler transform 'asked'" in str(raised.value)
    str(raised.value).encode()


def test_a_bigint_of_thousands_of_digits_is_a_dead_letter():
    text = "row => ({ ...row, id: row.id === 3 ? 10n ** 5000n : row.id })"
    made = run({"scripted": script(text, **_BAD)}, {"type": "numbers", "rows": 6})
    assert collected_rows(made, "to_scripted")["id"].to_pylist() == [0, 1, 2, 4, 5]
    (letter,) = collected_rows(made, "bad").to_pylist()
    assert letter["position"] == "id=3"
    assert "column 'id' has type int64, which cannot hold a bigint: 1000" in letter["error"]
