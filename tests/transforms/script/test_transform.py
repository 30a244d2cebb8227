"""The script transform in pipelines; see the other tests of this folder for what scripts can do."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.memory import collected_rows
from streamling.dev.contracts.harness import NAME, NoSpark
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.plugins.registry import Registry
from streamling.testing import PipelineHarness, TransformContract
from streamling.transforms.script.config import ScriptSettings
from streamling.transforms.script.transform import ScriptTransform, returned_names
from tests.harness.pipelines import Bench, finish, new_run
from tests.paths import ROOT

DOUBLED = "function process(row) { return row.id % 2 ? null : [row, { ...row, name: row.name + '!' }] }"


class TestScriptTransform(TransformContract):
    operator = ScriptTransform

    def options(self) -> dict[str, Any]:
        return {"language": "javascript", "script": DOUBLED, "primary_key": "id"}

    def expected(self) -> list[dict[str, Any]]:
        return [{"id": id, "name": f"n{id}{mark}"} for id in range(0, 20, 2) for mark in ("", "!")]


def test_columns_that_the_schema_does_not_have_are_reported_once(caplog):
    script = "row => row.id < 10 ? { id: row.id, totla: 1, _gs_op: 'i' } : [{ id: row.id, total: 2, other: 3 }]"
    options = {"language": "js", "script": script, "primary_key": "id", "schema": {"id": "int64", "total": "int64"}}
    bench = PipelineHarness(ScriptTransform, {**options, "parallelism": 2})
    batches = [pa.record_batch({"id": list(range(first, first + 10))}) for first in range(0, 40, 10)]
    bench.finish(batches)
    said = "the script returns columns that are not part of the output (declare them in 'schema'): "
    found = [message.removeprefix(said) for message in caplog.messages if message.startswith(said)]
    assert sorted(found) == ["'other'", "'totla'"]
    assert sorted(row["total"] or 0 for row in bench.written_rows) == [0] * 10 + [2] * 30


@pytest.mark.parametrize("schema", [{"id": "int64", "total": "int64"}, None])
def test_columns_that_the_text_shows_are_reported_before_anything_runs(caplog, schema):
    """Also without `schema`, where the columns of the input apply; and not again when they occur."""
    options = {"language": "ts", "script": "row => ({ id: row.id, totla: 1 as any })", "primary_key": "id"}
    bench = PipelineHarness(ScriptTransform, options if schema is None else {**options, "schema": schema})
    batches = [pa.record_batch({"id": [1, 2]})]
    run = bench.prepare(batches)
    run.check_without_spark()
    said = "the script returns columns that are not part of the output (declare them in 'schema'): 'totla'"
    assert caplog.messages.count(said) == 1
    run.start()
    run.wait()
    assert caplog.messages.count(said) == 1


# ── before anything runs ─────────────────────────────────────────────────────────────────────────────────────

STATIC = """sources:
  rows: {{type: file, path: '{path}', format: json, mode: {{type: bounded}}, primary_key: id}}
transforms:
  more: {{type: sql, primary_key: id, sql: "{sql}"}}
  scripted:
    type: script
    from: more
    language: {language}
    primary_key: id
    {schema}
    script: |
      // the first line of the script is line 12 of the file
{script}
sinks:
  out: {{type: memory, from: scripted}}
"""


def static(
    tmp_path: Path, script: str, *, language: str = "js", schema: str = "", sql: str = "SELECT * FROM rows"
) -> Any:
    """Return the columns of every node, found without Spark."""
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "name": "a"}\n')
    body = "\n".join(f"      {line}" for line in script.splitlines())
    text = STATIC.format(path=tmp_path / "rows.jsonl", sql=sql, language=language, schema=schema, script=body)
    pipeline = parse_pipeline(text, registry=Registry.builtin(), file="p.yaml")
    return new_run(pipeline).check_without_spark()


@pytest.mark.parametrize("sql", ["SELECT * FROM rows", "SELECT id, bitmap_count(name) AS odd FROM rows"])
@pytest.mark.parametrize("language", ["js", "ts"])
def test_a_syntax_error_is_found_without_spark_in_its_line_of_the_file(tmp_path, language, sql):
    with pytest.raises(InvalidPipeline) as refused:
        static(tmp_path, "function process(row) {\n  return row +* 2;\n}", language=language, sql=sql)
    (problem,) = refused.value.problems
    assert (problem.file, problem.line) == ("p.yaml", 14)
    assert "script transform 'scripted': the script is invalid: SyntaxError" in problem.message
    assert problem.excerpt == "    return row +* 2;"


def test_a_script_without_a_function_is_found_without_spark(tmp_path):
    with pytest.raises(InvalidPipeline, match="the script is invalid: it defines no function"):
        static(tmp_path, "const a = 1;")


def test_the_output_has_the_columns_of_the_input_by_default(tmp_path):
    assert static(tmp_path, "row => row")["scripted"].names == ["id", "name", "_gs_op"]


def test_declared_columns_are_in_alphabetical_order_followed_by_the_row_kind(tmp_path):
    schema = static(tmp_path, "row => row", schema="schema: {id: int64, b: 'decimal(20)', a: TimeStamp}")["scripted"]
    assert schema.names == ["a", "b", "id", "_gs_op"]
    assert schema.types[:3] == [pa.timestamp("us"), pa.decimal128(20, 0), pa.int64()]
    assert [field.nullable for field in schema] == [True, True, True, False]


def test_a_declared_row_kind_keeps_its_position(tmp_path):
    schema = static(tmp_path, "row => row", schema="schema: {id: int64, _gs_op: string, Z: string}")["scripted"]
    assert schema.names == ["Z", "_gs_op", "id"]


def test_a_key_that_the_script_does_not_return_is_rejected(tmp_path):
    with pytest.raises(InvalidPipeline, match="primary key column id not found"):
        static(tmp_path, "row => row", schema="schema: {name: string}")


# ── failing ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failing_script_stops_the_pipeline_and_its_rows_are_replayed():
    """Nothing after the batch that failed is stored; with a corrected script everything arrives."""
    options = {"language": "js", "primary_key": "id", "batch_size": 5}
    rows = pa.record_batch({"id": list(range(40)), "name": [f"n{id}" for id in range(40)], "_gs_op": ["i"] * 40})
    given = [rows.slice(start, 10) for start in range(0, 40, 10)]
    bad = PipelineHarness(
        ScriptTransform, {**options, "script": "r => { if (r.id === 23) throw new Error('no'); return r }"}
    )
    error = bad.failure(given, interval=0.01)
    assert f"'{NAME}'" in str(error)
    assert "row 4 of the batch: the script failed: Error: no" in str(error)
    assert '"id":23' in str(error)
    assert not error.internal
    good = PipelineHarness(ScriptTransform, {**options, "script": "r => r"})
    good.state = bad.state
    good.written_rows.extend(bad.written_rows)
    good.finish(given)
    assert sorted({row["id"] for row in good.written_rows}) == list(range(40))


@pytest.mark.parametrize("engine", ["quickjs", "v8"])
def test_limits_come_from_the_configuration(engine):
    batch = pa.record_batch({"id": [1], "_gs_op": ["i"]})
    fields = {"type": "script", "from": "x", "language": "js", "primary_key": "id", "script": "() => { for (;;); }"}
    context = NodeContext(
        NAME,
        ScriptTransform.Options.model_validate(fields),
        AppConfig(wasm_script=ScriptSettings(timeout_sec=0.3, engine=engine)),
        UnavailableState(""),
        NoopMetrics(),
        input_schema=batch.schema,
    )
    transform = ScriptTransform(context)
    transform.open()
    with pytest.raises(StreamlingError, match=r"it ran longer than 0\.3 s for one batch") as failure:
        transform.process(batch)
    assert failure.value.remedy == "check for an endless loop, or raise wasm_script.timeout_sec"


# ── with Spark ───────────────────────────────────────────────────────────────────────────────────────────────

#: typical code for chain data
PRODUCTION = """
interface Transfer {
  id: string; from_address: string; to_address: string | null;
  value: string; block_timestamp: number; logs?: Log[];
}
type Log = { index: number; topic: string };
enum Kind { Small = "small", Large = "large" }

const WEI: number = 1e18;
const short = (address: string | null): string | null => address?.slice(0, 6) ?? null;

function kindOf(eth: number): Kind {
  return eth >= 1 ? Kind.Large : Kind.Small;
}

function invoke(data: Transfer): object | object[] | null {
  if (data.to_address === null) return null;
  const eth = Number(data.value) / WEI;
  return {
    transfer_id: data.id, sender: short(data.from_address), receiver: short(data.to_address!),
    value_eth: eth, exact: data.value, kind: kindOf(eth) as string,
    timestamp: new Date(data.block_timestamp * 1000).toISOString(), logs: (data.logs ?? []).length,
  };
}
"""
PRODUCTION_SCHEMA = {
    "transfer_id": "string", "sender": "string", "receiver": "string", "value_eth": "float64", "exact": "decimal(38,0)",
    "kind": "string", "timestamp": "timestamp", "logs": "int32",
}  # fmt: skip


def transfers(count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": f"t{n}",
            "from_address": f"0xabcdef{n}",
            "to_address": None if n == 7 else f"0x123456{n}",
            "value": str(10**17 * (n + 1) * 5 + 1),
            "block_timestamp": 1_700_000_000 + n,
        }
        for n in range(count)
    ]


def expected_transfer(row: dict[str, Any]) -> tuple[Any, ...]:
    kind = "large" if int(row["value"]) / 1e18 >= 1 else "small"
    return row["id"], row["from_address"][:6], row["to_address"][:6], Decimal(row["value"]), kind, 0


@pytest.mark.spark
def test_production_typescript_with_a_schema_gives_seven_rows_for_sql(spark, tmp_path):
    (tmp_path / "transfers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in transfers(8)))
    source = {"type": "file", "path": str(tmp_path / "transfers.jsonl"), "format": "json", "primary_key": "id"}
    script = {"type": "script", "from": "raw", "language": "typescript", "primary_key": "transfer_id"}
    pipeline = {
        "sources": {"raw": {**source, "mode": {"type": "bounded"}}},
        "transforms": {
            "reshaped": {**script, "schema": PRODUCTION_SCHEMA, "script": PRODUCTION, "parallelism": 2},
            "named": {
                "type": "sql",
                "primary_key": "transfer_id",
                "sql": "SELECT transfer_id, sender, receiver, exact, kind, logs, year(timestamp) AS y FROM reshaped",
            },
        },
        "sinks": {"out": {"type": "memory", "from": "named"}},
    }
    run = Bench(spark).run(json.dumps(pipeline))
    rows = sorted(collected_rows(run, "out").to_pylist(), key=lambda row: row["transfer_id"])
    assert [(r["transfer_id"], r["sender"], r["receiver"], r["exact"], r["kind"], r["logs"]) for r in rows] == [
        expected_transfer(row) for row in transfers(7)
    ]
    assert {row["y"] for row in rows} == {2023}


@pytest.mark.spark
@pytest.mark.parametrize("widths", [(1, 3), (3, 1), (2, 2)])
def test_every_row_passes_once_whatever_the_parallelism(spark, widths):
    first, second = widths
    text = f"""
sources:
  numbers: {{type: numbers, rows: 100, primary_key: id}}
transforms:
  one: {{type: script, from: numbers, language: js, primary_key: id, parallelism: {first}, script: 'r => r'}}
  two:
    type: script
    from: one
    language: js
    primary_key: label
    parallelism: {second}
    batch_size: 7
    schema: {{label: string}}
    script: 'r => ({{ label: `n${{r.id}}` }})'
sinks:
  out: {{type: ledger, from: two}}
"""
    bench = Bench(spark)
    finish(bench.start(text))
    assert sorted(row["label"] for row in bench.books["out"]) == sorted(f"n{n}" for n in range(100))
    assert bench.state.get("numbers") == 100


EXAMPLES = ROOT / "examples" / "scripts"


@pytest.mark.spark
def test_the_examples_run(spark, monkeypatch, capsys):
    monkeypatch.chdir(EXAMPLES.parents[1])
    for name in ("typescript.yaml", "expand.yaml"):
        Bench(spark).run((EXAMPLES / name).read_text())
    rows = [json.loads(line[line.index("{") :]) for line in capsys.readouterr().out.splitlines()]
    assert [(row.get("transfer_id"), row.get("item")) for row in rows] == [
        ("t1", None),
        ("t3", None),
        (None, "pen"),
        (None, "ink"),
    ]
    assert rows[0] == {
        "at": "2023-11-14T22:13:20",
        "receiver": "0xbbbb01",
        "sender": "0xaaaa01",
        "size": "large",
        "transfer_id": "t1",
        "value_eth": 1.5,
        "value_wei": 1500000000000000001,
        "_gs_op": "i",
    }
    assert rows[2] == {"count": 2, "item": "pen", "order_id": 1, "tier": "premium", "_gs_op": "i"}


# ── rows that a script fails with ────────────────────────────────────────────────────────────────────────────


def test_rows_that_a_script_fails_with_go_to_the_dead_letter_sink() -> None:
    script = (
        "function process(row) {\n"
        "  if (row.id == 7) throw new Error('seven')\n"
        "  return {id: row.id == 9 ? 'x' : row.id, name: row.name} }"
    )
    scripted = {"type": "script", "from": "rows", "primary_key": "id", "language": "js", "script": script}
    nodes = {
        "sources": {"rows": {"type": "numbers", "primary_key": "id"}},
        "transforms": {"scripted": {**scripted, "errors": {"to": "bad"}}},
        "sinks": {"out": {"type": "memory", "from": "scripted"}, "bad": {"type": "memory"}},
    }
    run = Bench(NoSpark()).run(json.dumps(nodes))
    assert collected_rows(run, "out")["id"].to_pylist() == [n for n in range(100) if n not in (7, 9)]
    seven, nine = collected_rows(run, "bad").to_pylist()
    assert seven["error"].startswith("the script failed in line 2: Error: seven\n")
    assert (seven["position"], seven["payload"]) == ("id=7", '{"id":7,"name":"n7","_gs_op":"i"}')
    assert nine["error"] == "column 'id' has type int64, which cannot hold a string: x"


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("row => ({ id: row.id, total: 1 })", ["id", "total"]),
        (
            "(row) => ({ ...row, total, 'with space': 2, [computed]: 3, 4: 5, get x() { return 1 } })",
            ["total", "with space"],
        ),
        ("function process(row) { if (row.a) return null; return { id: 1 } }", ["id"]),
        ("function process(row) { return row.a ? [{ a: 1 }, null] : (({ b: 2 })) }", ["a", "b"]),
        ("function helper() { return { no: 1 } }\nfunction process(row) { return helper() }", []),
        ("function process(row) { const f = () => ({ no: 1 }); return { yes: f().no } }", ["yes"]),
        ("const one = () => ({ no: 1 })\nconst process = (row) => ({ yes: one() })", ["yes"]),
        ("const a = () => ({ x: 1 })\nconst b = () => ({ y: 1 })", []),
        ("function invoke(row: Row): Out { return { id: row.id, more: 1 } as Out }", ["id", "more"]),
        ("function (row) { for (const x of row.l) { if (x) { return { deep: x } } } return row }", ["deep"]),
        ("row => row", []),
        ("this is not a script {{{", []),
        ("", []),
    ],
)
def test_names_in_returned_objects(script, names):
    assert returned_names(script) == names
