"""Which nodes belong to the segment of a producer."""

from tests.harness.pipelines import Bench

from streamling.engine.planning.placement import placement_for
from streamling.engine.planning.segments import plan_segments
from streamling.pipeline.config import AppConfig
from streamling.pipeline.parse import parse_pipeline

PIPELINE = """
sources:
  a: {type: numbers, primary_key: id}
  b: {type: numbers, primary_key: id}
transforms:
  known: {type: dynamic_table, sql: SELECT id FROM a, backend_type: InMemory, backend_entity_name: known}
  low: {type: sql, primary_key: id, sql: SELECT id FROM a WHERE id < 3}
  high: {type: sql, primary_key: id, sql: SELECT id FROM a WHERE id > 3}
  both: {type: sql, primary_key: id, sql: SELECT id FROM low UNION ALL SELECT id FROM high UNION ALL SELECT id FROM b}
  doubled: {type: double, from: both}
  last: {type: sql, primary_key: id, sql: SELECT id FROM doubled}
sinks:
  out: {type: ledger, from: last}
  gone: {type: blackhole, from: low}
"""


def _segments(master: str) -> dict[str, list[str]]:
    registry = Bench(None).registry()
    pipeline = parse_pipeline(PIPELINE, registry=registry, config=AppConfig())
    placement = placement_for(master)
    modes = {node.name: placement.mode(node, registry.operator(node)) for node in pipeline}
    segments = plan_segments(pipeline, modes)
    return {name: [node.name for node in segment.nodes] for name, segment in segments.items()}


def test_a_segment_ends_at_lanes_and_at_sinks_that_spark_writes():
    segments = _segments("local[*]")
    assert list(segments) == ["a", "b", "doubled"]
    assert sorted(segments["a"]) == ["both", "doubled", "gone", "high", "low"]  # a dynamic table is beside it
    assert segments["doubled"] == ["out", "last"]


def test_segments_that_meet_share_the_nodes_below():
    assert _segments("local[*]")["b"] == ["doubled", "both"]


def test_each_node_comes_after_its_consumers():
    nodes = _segments("local[*]")["a"]
    assert nodes.index("doubled") < nodes.index("both") < min(nodes.index("low"), nodes.index("high"))
    assert nodes.index("gone") < nodes.index("low")


def test_on_a_cluster_an_arrow_transform_is_part_of_the_segment_of_the_source():
    segments = _segments("spark://there:7077")
    assert list(segments) == ["a", "b"]
    assert segments["b"] == ["out", "last", "doubled", "both"]
