"""Every pipeline of the documents that the project was created from can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamling.pipeline.model import Pipeline
from streamling.pipeline.parse import load_pipeline
from tests.pipeline.plugins import registry_with_plugins

FOLDER = Path(__file__).parent.parent / "seeds"
FILES = sorted(FOLDER.glob("*.yaml"))


def load(name: str) -> Pipeline:
    return load_pipeline(FOLDER / f"{name}.yaml", registry=registry_with_plugins())


def test_all_examples_are_here() -> None:
    assert len(FILES) == 31


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_example_can_be_read(path: Path) -> None:
    pipeline = load_pipeline(path, registry=registry_with_plugins())
    assert pipeline.sources
    assert pipeline.sinks
    seen: set[str] = set()
    for node in pipeline:
        assert set(node.upstreams) <= seen
        seen.add(node.name)


def test_hero_is_one_chain() -> None:
    names = ["api_orders", "recent_orders", "enriched", "scored", "pg_orders"]
    pipeline = load("hero")
    assert [node.name for node in pipeline] == names
    assert [node.upstreams for node in pipeline] == [(), *((name,) for name in names[:-1])]
    assert pipeline["api_orders"].options.poll_interval_ms == 5000


def test_names_with_dots_are_read_in_sql() -> None:
    assert load("overview")["large_transactions"].upstreams == ("raw.transactions",)


def test_table_is_filled_from_the_stream_that_is_checked_against_it() -> None:
    pipeline = load("dynamic_table_deduplication")
    assert pipeline["seen_users"].upstreams == pipeline["filtered_events"].upstreams == ("user.events",)


def test_plugin_options_arrive_as_text() -> None:
    pipeline = load("plugin_pipeline")
    assert pipeline["updated_plugin_data"].options.model_extra == {"_gs_op": "i"}
    assert pipeline["plugin_data"].options.max_rows == 50


def test_aggregates_keep_their_columns() -> None:
    options = load("aggregate_several")["market_stats"].options
    assert {name: column.fn for name, column in options.aggregate.items()} == {
        "trade_count": "count",
        "total_volume": "sum",
        "avg_price": "avg",
    }
    assert options.aggregate["total_volume"].from_ == "volume"
    assert options.group_by["market"].type == "varchar(100)"
