"""`plan`: the drawing and its JSON, without Spark."""

import json

from streamling.cli.canvas import Canvas
from streamling.cli.plan import drawing
from streamling.engine.planning.description import ColumnDescription, NodeDescription, PlanDescription
from streamling.plugins.execution import ExecutionMode

FAN = """\
sources:
  orders: {type: file, path: orders, format: csv, mode: {type: bounded}, primary_key: id}
  late: {type: file, path: orders, format: csv, primary_key: id}
transforms:
  both: {type: sql, primary_key: id, sql: SELECT * FROM orders UNION ALL SELECT * FROM late}
  large: {type: sql, primary_key: id, sql: SELECT * FROM both WHERE price > 1}
sinks:
  screen: {type: print, from: large, parallelism: 2, batch_size: 10, batch_flush_interval: 2s}
  gone: {type: blackhole, from: both}
"""

SECRETIVE = """\
from streamling.pipeline.options import FreeFormOptions
from streamling.plugins import Sink, plugin

class Options(FreeFormOptions):
    "Keeps rows to itself."

@plugin("acme.vault")
class Vault(Sink):
    Options = Options
    def write(self, batch): ...
"""


def test_the_drawing_shows_the_path_from_source_to_sink(project):
    result = project.call("plan", "pipeline.yaml")
    assert result.code == 0
    assert result.err == ""
    assert (
        result.out
        == f"""\
pipeline.yaml: 1 flow, ends by itself
Spark local[*], all on this machine
state of pipeline in {project.folder}/state.db

* orders  file source, bounded
|   key id; state orders:bounded_progress, orders:partial
|   path: orders  format: csv  mode: {{"type": "bounded"}}
|   columns: id int64, item string, price double, _gs_op string
`-* large  sql, Spark plan 1
  |   key id
  |   sql: SELECT id, item, price * 2 AS price FROM orders WHERE price > 1
  |   columns: id int64, item string, price double, _gs_op string
  `-* screen  print sink, one lane
        key id
"""
    )


def test_plan_leaves_nothing_behind(project):
    before = sorted(path.name for path in project.folder.iterdir())
    project.call("plan", "pipeline.yaml")
    assert sorted(path.name for path in project.folder.iterdir()) == before


def test_a_node_of_two_flows_is_drawn_once_and_referenced(project):
    project.write("fan.yaml", FAN)
    out = project.call("plan", "fan.yaml").out
    assert out.startswith("fan.yaml: 2 flows, runs until stopped\n")
    assert out.count("both  sql") == 1
    assert out.endswith("`-> both (above)\n")
    assert "screen  print sink, 2 lanes" in out
    assert "key id; batches of 10; at least every 2 s" in out
    assert "gone  blackhole sink, Spark plan 1" in out


def test_an_error_is_reported_instead_of_a_plan(project):
    project.write("bad.yaml", FAN.replace("WHERE price", "WHERE prise"))
    result = project.call("plan", "bad.yaml")
    assert (result.code, result.out) == (78, "")
    assert "did you mean" in result.err


def test_json_holds_everything(project):
    project.write("fan.yaml", FAN)
    plan = json.loads(project.call("plan", "fan.yaml", "--json").out)
    assert plan["flows"] == {
        "orders": ["orders", "both", "large", "screen", "gone"],
        "late": ["late", "both", "large", "screen", "gone"],
    }
    assert [segment["nodes"] for segment in plan["segments"]] == [["both", "large", "gone"]]
    assert plan["nodes"]["late"]["state_keys"] == ["late:watermark", "late:seen:*", "late:partial"]
    assert plan["nodes"]["screen"]["columns"][0] == {"name": "id", "type": "int64"}
    assert plan["nodes"]["screen"]["place"] == "lane"


def test_secrets_of_a_plugin_are_masked(project, monkeypatch):
    project.write("vault.py", SECRETIVE)
    monkeypatch.setenv("STREAMLING__PLUGIN__PATH", "vault.py")
    sink = (
        "vault: {type: acme.vault, from: large, password: hunter2, url: 'http://me:hunter2@there', secret_name: KEEP}"
    )
    project.write("secret.yaml", (project.folder / "pipeline.yaml").read_text() + f"  {sink}\n")
    for args in ((), ("--json",)):
        result = project.call("plan", "secret.yaml", *args)
        assert result.code == 0, result.err
        assert "hunter2" not in result.out
        assert "KEEP" in result.out


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────


def _node(name: str, upstreams: tuple[str, ...] = (), **changes) -> NodeDescription:
    facts = {
        "kind": "transform" if upstreams else "source", "type": "sql", "place": ExecutionMode.SPARK, "segment": 1,
        "primary_key": (), "columns": None, "instances": 1, "batch_size": None, "flush_interval": None,
        "bounded": None, "state_keys": (), "options": {},
    }  # fmt: skip
    return NodeDescription(name=name, upstreams=upstreams, **{**facts, **changes})


def _plan(*nodes: NodeDescription, **changes) -> PlanDescription:
    facts = {
        "file": "p.yaml", "application_id": "app", "master": "local[*]", "placement": "local", "state": "memory",
        "bounded": True, "flows": {node.name: () for node in nodes if not node.upstreams}, "segments": (),
        "nodes": {node.name: node for node in nodes},
    }  # fmt: skip
    return PlanDescription(**{**facts, **changes})


def test_branches_are_connected_down_to_the_last_child():
    plan = _plan(_node("a"), _node("b", ("a",)), _node("c", ("b",)), _node("d", ("a",)))
    tree = [line for line in drawing(plan, Canvas(unicode=True)) if "columns" not in line][4:]
    assert tree == [
        "● a  sql source, Spark plan 1",
        "├─● b  sql, Spark plan 1",
        "│ └─● c  sql, Spark plan 1",
        "└─● d  sql, Spark plan 1",
    ]


def test_no_line_is_longer_than_the_terminal():
    columns = tuple(ColumnDescription(f"column_{number}", "string") for number in range(50))
    plan = _plan(_node("a", columns=columns), _node("b", ("a",), columns=columns), state="x" * 100)
    lines = list(drawing(plan, Canvas(width=40, unicode=True)))
    assert max(map(len, lines)) == 40
    assert any(line.endswith("…") for line in lines)


def test_colours_only_on_terminals():
    assert not any("\x1b" in line for line in drawing(_plan(_node("a"))))
    assert any("\x1b[1ma" in line for line in drawing(_plan(_node("a")), Canvas(colour=True)))


def test_a_cluster_and_lanes_of_transforms_are_named():
    lane = _node("b", ("a",), place=ExecutionMode.LANE, segment=2, instances=3)
    lines = list(drawing(_plan(_node("a", place=ExecutionMode.STREAMED), lane, placement="cluster", bounded=False)))
    assert "Spark local[*], on the executors of a cluster" in lines
    assert "* a  sql source, continuous stream" in lines
    assert "`-* b  sql, Arrow segment 2, 3 lanes" in lines


def test_plans_of_spark_follow_the_tree():
    lines = list(drawing(_plan(_node("a"), spark_plans={1: {"b": "Project [x]\n+- rows of a"}})))
    assert lines[-3:] == ["Spark plan 1, up to b", "  Project [x]", "  +- rows of a"]


def test_tables_are_drawn_below_their_input_or_alone():
    filled = _node("seen", ("a",), type="dynamic_table", place=ExecutionMode.SIDE, segment=None)
    alone = _node("vip", kind="transform", type="dynamic_table", place=ExecutionMode.SIDE, segment=None)
    plan = _plan(_node("a"), filled, alone, flows={"a": ("a", "seen")})
    tree = [line for line in drawing(plan, Canvas(unicode=True)) if "columns" not in line][4:]
    assert tree == [
        "● a  sql source, Spark plan 1",
        "└─● seen  dynamic_table, side output",
        "",
        "● vip  dynamic_table, filled externally",
    ]


def test_a_dead_letter_sink_is_drawn_below_the_nodes_whose_rows_it_receives():
    bad = _node("bad", kind="sink", type="print", place=ExecutionMode.LANE, segment=None, bad_rows_of=("a", "b"))
    plan = _plan(_node("a"), _node("b", ("a",)), bad, flows={"a": ("a", "b", "bad")})
    tree = [line for line in drawing(plan, Canvas(unicode=True)) if "columns" not in line][4:]
    assert tree == [
        "● a  sql source, Spark plan 1",
        "├─● b  sql, Spark plan 1",
        "│ └─● bad  print sink, one lane, rejected rows of a, b",
        "└─↪ bad (above)",
    ]


def test_the_graph_needs_neither_a_jvm_nor_the_sources(project):
    (project.folder / "orders" / "a.csv").unlink()
    assert project.call("plan", "pipeline.yaml", "--graph").out.startswith("flowchart LR\n")
    image = project.call("plan", "pipeline.yaml", "--graph", "svg")
    assert image.code == 0
    assert image.out.startswith("<svg ")
    assert image.out.endswith("</svg>\n")


def test_a_graph_cannot_be_combined_with_other_output(project):
    assert project.call("plan", "pipeline.yaml", "--graph", "svg", "--json").code == 2
