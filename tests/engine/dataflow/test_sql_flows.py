"""SQL inside pipelines: fused, fanned out, united, streamed; and what its failures look like."""

import os
from typing import Any

import pyarrow as pa
import pytest
import xxhash
from Crypto.Hash import keccak
from tests.harness.pipelines import DoubleTransform, NumbersSource, eventually, finish

from streamling.connectors.memory import collected_rows
from streamling.errors import InvalidPipeline, StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import SinkOptions
from streamling.plugins.context import NodeContext
from streamling.plugins.sinks import FrameSink

pytestmark = pytest.mark.spark


def pipeline(transforms: str, sinks: str, sources: str = "numbers: {type: numbers, rows: 100, primary_key: id}") -> str:
    def block(text: str) -> str:
        return "".join(f"  {line}\n" for line in text.strip().splitlines())

    return f"sources:\n{block(sources)}transforms:\n{block(transforms)}sinks:\n{block(sinks)}"


def sql(name: str, text: str, key: str = "id") -> str:
    return f'{name}: {{type: sql, primary_key: {key}, sql: "{text}"}}\n'


def test_a_chain_of_sql_nodes_gives_what_its_parts_say(bench):
    run = bench.run(
        pipeline(
            sql("even", "SELECT * FROM numbers WHERE id % 2 = 0")
            + sql("named", "SELECT id, upper(name) AS label FROM even WHERE id >= 90"),
            "out: {type: memory, from: named}",
        )
    )
    rows = sorted(collected_rows(run, "out").to_pylist(), key=lambda row: row["id"])
    assert rows == [{"id": i, "label": f"N{i}", "_gs_op": "i"} for i in range(90, 100, 2)]


def test_a_long_chain_of_sql_nodes_runs(bench):
    count = int(os.environ.get("STREAMLING_TEST_SQL_NODES", "150"))
    nodes = [sql("n0", "SELECT id, 0 AS v FROM numbers")]
    nodes += [sql(f"n{i}", f"SELECT id, v + 1 AS v FROM n{i - 1}") for i in range(1, count)]
    source = "numbers: {type: numbers, rows: 2, primary_key: id}"
    run = bench.run(pipeline("".join(nodes), f"out: {{type: memory, from: n{count - 1}}}", source))
    assert collected_rows(run, "out").column("v").to_pylist() == [count - 1] * 2


def test_a_chain_of_sql_nodes_is_one_plan(bench):
    run = bench.prepare(
        pipeline(
            sql("a", "SELECT id, id + 1 AS b FROM numbers") + sql("c", "SELECT id, b + 1 AS d FROM a WHERE b > 3"),
            "out: {type: memory, from: c}",
        )
    )
    empty = run.analysis.empty_frames["numbers"]
    first = run.analysis.nodes["a"].operator.apply(bench.spark, {"numbers": empty})
    fused = run.analysis.nodes["c"].operator.apply(bench.spark, {"a": first})
    plan = fused._jdf.queryExecution().optimizedPlan().toString()
    assert plan.count("Project") <= 1, plan


def test_a_node_with_several_consumers_is_evaluated_once(bench):
    run = bench.run(
        pipeline(
            sql("tagged", "SELECT id, uuid() AS tag FROM numbers")
            + sql("left_side", "SELECT id, tag FROM tagged")
            + sql("right_side", "SELECT id, tag, id * 2 AS twice FROM tagged"),
            "a: {type: memory, from: left_side}\nb: {type: memory, from: right_side}\nc: {type: memory, from: tagged}",
        )
    )
    tables = [collected_rows(run, name) for name in "abc"]
    tags = [dict(zip(t.column("id").to_pylist(), t.column("tag").to_pylist(), strict=True)) for t in tables]
    assert tags[0] == tags[1] == tags[2]
    assert len(tags[0]) == 100


def test_union_all_within_a_flow_gives_every_row_of_both_sides(bench):
    run = bench.run(
        pipeline(
            sql("low", "SELECT id FROM numbers WHERE id < 10")
            + sql("high", "SELECT id FROM numbers WHERE id >= 95")
            + sql("both_ends", "SELECT id FROM low UNION ALL SELECT id + 1000 AS id FROM high"),
            "out: {type: memory, from: both_ends}",
        )
    )
    assert sorted(collected_rows(run, "out").column("id").to_pylist()) == [*range(10), *range(1095, 1100)]


def test_union_all_across_flows_shares_one_sink_and_stores_both_positions(bench):
    bench.run(
        pipeline(
            sql("together", "SELECT id, name FROM numbers UNION ALL SELECT id, name FROM others"),
            "out: {type: ledger, from: together}",
            "numbers: {type: numbers, rows: 50, primary_key: id, pause: 0.02}\n"
            "others: {type: numbers, rows: 30, first: 500, primary_key: id}",
        )
    )
    assert sorted(bench.ids("out")) == [*range(50), *range(500, 530)]
    assert (bench.state.get("numbers"), bench.state.get("others")) == (50, 530)


def test_several_flows_run_side_by_side(bench):
    run = bench.run(
        pipeline(
            sql("plus", "SELECT id + 1 AS id FROM numbers"),
            "a: {type: memory, from: plus}\nb: {type: memory, from: others}",
            "numbers: {type: numbers, rows: 50, primary_key: id}\nothers: {type: numbers, rows: 30, primary_key: id}",
        )
    )
    assert (collected_rows(run, "a").num_rows, collected_rows(run, "b").num_rows) == (50, 30)


def test_sql_below_an_arrow_transform_goes_back_to_spark(bench):
    run = bench.run(
        pipeline(
            "doubled: {type: double, from: numbers}\n"
            + sql("big", "SELECT id, double FROM doubled WHERE double >= 190"),
            "out: {type: memory, from: big}",
        )
    )
    assert sorted(collected_rows(run, "out").column("double").to_pylist()) == [190, 192, 194, 196, 198]


class RebuiltTransform(DoubleTransform):
    """Its batches have the right columns, but not the metadata that says what they mean."""

    def process(self, batch):
        doubled = super().process(batch)
        return pa.record_batch(dict(zip(doubled.schema.names, doubled.columns, strict=True)))


def test_wide_numbers_stay_what_they_are_behind_a_transform_that_builds_its_batches_anew(bench):
    registry = bench.registry()
    registry.register(NodeKind.TRANSFORM, "rebuilt", RebuiltTransform)
    bench.registry = lambda: registry
    run = bench.run(
        pipeline(
            sql("wide", "SELECT id, to_u256(id) AS u FROM numbers WHERE id < 3")
            + "rebuilt: {type: rebuilt, from: wide}\n"
            + sql("text", "SELECT id, CAST(u + 1 AS TEXT) AS t FROM rebuilt"),
            "out: {type: memory, from: text}",
        )
    )
    assert sorted(collected_rows(run, "out").column("t").to_pylist()) == ["1", "2", "3"]


def test_a_streamed_source_with_sql_and_two_sinks(bench):
    run = bench.start(
        pipeline(
            sql("odd", "SELECT value AS id, now() AS seen FROM ticks WHERE value % 2 = 1"),
            "out: {type: ledger, from: odd}\nhole: {type: blackhole, from: odd}",
            "ticks: {type: tick, per_second: 500}",
        )
    )
    eventually(lambda: len(bench.ids("out")) > 300, 40)
    run.stop("enough")
    finish(run)
    ids = sorted(bench.ids("out"))
    assert ids == list(range(1, 2 * len(ids), 2))
    assert len({row["seen"] for row in bench.books["out"]}) > 1, "now() is evaluated for each batch"


TRANSFERS = """
SELECT id, upper(name) AS name, regexp_extract(name, '([0-9]+)', 1) AS digits, split_index('a,b', ',', 1) AS second,
  parse_url('https://e.com/p?k=1', 'QUERY', 'k') AS k, _gs_keccak256(name) AS hash,
  json_value(json_object('n', name), '$.n') AS back
FROM numbers WHERE is_json(json_array(name))
"""


def test_functions_of_the_jvm_and_of_python_workers_in_one_statement(bench):
    run = bench.run(pipeline(sql("t", " ".join(TRANSFERS.split())), "out: {type: memory, from: t}"))
    rows = sorted(collected_rows(run, "out").to_pylist(), key=lambda row: row["id"])
    assert len(rows) == 100
    assert rows[7] == {
        "id": 7,
        "name": "N7",
        "digits": "7",
        "second": "b",
        "k": "1",
        "hash": "0x" + keccak.new(digest_bits=256, data=b"n7").hexdigest(),
        "back": "n7",
        "_gs_op": "i",
    }


def test_kernels_in_the_batches_of_a_stream(bench):
    hashed = sql("first", "SELECT value AS id, _gs_xxhash(cast(value as text)) AS hash FROM ticks")
    below = sql("second", "SELECT id, hash, _gs_keccak256(hash) AS twice FROM first")
    run = bench.start(
        pipeline(
            hashed + below,
            "out: {type: ledger, from: second}\nplain: {type: ledger, from: first}",
            "ticks: {type: tick, per_second: 200}",
        )
    )
    eventually(lambda: len(bench.ids("out")) > 100 and len(bench.ids("plain")) > 100, 60)
    run.stop("enough")
    finish(run)
    for row in bench.books["out"]:
        digest = xxhash.xxh3_128_hexdigest(str(row["id"]).encode())
        assert (row["hash"], row["twice"][:2]) == (digest, "0x")


def test_an_error_raised_by_a_function_is_a_sentence(bench):
    with pytest.raises(StreamlingError, match="this is not JSON: n") as caught:
        bench.run(
            pipeline(
                sql("parsed", "SELECT id, parse_json(name) AS j FROM numbers"), "out: {type: memory, from: parsed}"
            )
        )
    assert "parsed" in str(caught.value)
    assert "Traceback" not in str(caught.value)


def test_a_failing_expression_names_the_node_and_says_why(bench):
    with pytest.raises(StreamlingError) as caught:
        bench.run(
            pipeline(sql("ratio", "SELECT id, 10 / (id - 5) AS r FROM numbers"), "out: {type: memory, from: ratio}")
        )
    text = str(caught.value)
    assert "ratio" in text
    assert "zero" in text
    assert not caught.value.internal
    assert bench.state.get("numbers") is None


def test_a_failing_expression_in_a_streamed_flow_stops_it_the_same_way(bench):
    run = bench.start(
        pipeline(
            sql("ratio", "SELECT value AS id, 10 / (value - 5) AS r FROM ticks"),
            "out: {type: memory, from: ratio}",
            "ticks: {type: tick, per_second: 100}",
        )
    )
    with pytest.raises(StreamlingError, match="ratio"):
        finish(run)


def test_a_column_that_does_not_exist_is_found_before_anything_runs(bench):
    with pytest.raises((InvalidPipeline, StreamlingError)) as caught:
        bench.prepare(pipeline(sql("bad", "SELECT nope FROM numbers"), "out: {type: memory, from: bad}"))
    assert "nope" in str(caught.value)


def test_a_key_column_missing_in_the_output_is_found_before_anything_runs(bench):
    with pytest.raises(InvalidPipeline, match="primary key column"):
        bench.prepare(pipeline(sql("bad", "SELECT name FROM numbers"), "out: {type: memory, from: bad}"))


class CountedSink(FrameSink[SinkOptions]):
    """Remembers the rows, and with how many tasks Spark computes them."""

    Options = SinkOptions
    ids: list[int]
    tasks: set[int]

    def write_frame(self, frame):
        self.tasks.add(frame.rdd.getNumPartitions())
        self.ids.extend(frame.toArrow().column("id").to_pylist())


@pytest.mark.parametrize("parallelism", [2, 3])
def test_parallelism_of_a_sql_node_is_the_number_of_its_tasks(bench, parallelism):
    counted = type("Counted", (CountedSink,), {"ids": [], "tasks": set()})
    registry = bench.registry()
    registry.register(NodeKind.SINK, "counted", counted)
    bench.registry = lambda: registry
    text = pipeline(sql("same", "SELECT id FROM numbers"), "out: {type: counted, from: same}")
    bench.run(text.replace("type: sql,", f"type: sql, parallelism: {parallelism},"))
    assert sorted(counted.ids) == list(range(100))
    assert counted.tasks == {parallelism}


def test_a_record_limit_counts_rows_that_spark_writes(bench):
    run = bench.run(
        pipeline(
            sql("same", "SELECT id FROM numbers"),
            "hole: {type: blackhole, from: same}",
            "numbers: {type: numbers, rows: 1000, ends: false, primary_key: id}",
        ),
        num_records_before_stop=50,
    )
    assert run.rows_written()["hole"] >= 50


def source_context(bench, text) -> NodeContext[Any]:
    """Return what the source ``numbers`` knows of its pipeline."""
    made = []

    class Recorded(NumbersSource):
        def __init__(self, context) -> None:
            super().__init__(context)
            made.append(self)

    bench.numbers = Recorded
    bench.prepare(text)
    return made[0].context


def test_a_source_knows_whether_its_rows_are_loaded_into_this_process(bench):
    text = pipeline(sql("same", "SELECT id FROM numbers"), "hole: {type: blackhole, from: same}")
    assert not source_context(bench, text).collected
    text = text.replace(
        "hole: {type: blackhole, from: same}", "hole: {type: blackhole, from: same}\n  out: {type: memory, from: same}"
    )
    assert source_context(bench, text).collected


def test_a_source_knows_whether_its_rows_are_spread_by_key(bench):
    text = pipeline(sql("same", "SELECT id FROM numbers"), "out: {type: memory, from: same}")
    assert source_context(bench, text).is_splittable
    text = text.replace("type: sql,", "type: sql, parallelism: 3,")
    assert not source_context(bench, text).is_splittable
