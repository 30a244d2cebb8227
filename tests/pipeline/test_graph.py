from __future__ import annotations

import pytest

from streamling.pipeline.graph import canonical, find_cycle, resolve, topological_order


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("raw.transactions", "raw.transactions"),
        ("RAW.Transactions", "raw.transactions"),
        ('"raw"."transactions"', "raw.transactions"),
        ('"raw.transactions"', "raw.transactions"),
        ("`orders`", "Orders"),
        ("orders", "Orders"),
    ],
)
def test_references_match_without_regard_to_case_and_quotes(reference: str, name: str) -> None:
    assert resolve(reference, ["raw.transactions", "Orders"]) == name


def test_exact_spelling_wins() -> None:
    assert resolve("A", ["a", "A"]) == "A"


def test_unknown_reference_is_nothing() -> None:
    assert resolve("order", ["orders"]) is None


def test_canonical_name_has_no_quotes_or_case() -> None:
    assert canonical('"Raw".TX') == "raw.tx"


def test_cycle_runs_in_the_direction_of_rows() -> None:
    assert find_cycle({"a": ["c"], "b": ["a"], "c": ["b"]}) in (
        ["a", "b", "c", "a"],
        ["b", "c", "a", "b"],
        ["c", "a", "b", "c"],
    )


def test_node_that_reads_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ["a", "a"]


def test_a_diamond_is_not_a_cycle() -> None:
    assert find_cycle({"s": [], "a": ["s"], "b": ["s"], "u": ["a", "b"]}) is None


def test_order_follows_the_file_where_it_can() -> None:
    upstreams = {"s1": [], "s2": [], "late": ["early"], "early": ["s2"], "out": ["late", "s1"]}
    assert topological_order(upstreams) == ["s1", "s2", "early", "late", "out"]


def test_upstream_named_twice_counts_once() -> None:
    assert topological_order({"u": ["s", "s"], "s": []}) == ["s", "u"]


def test_long_chains_need_no_stack() -> None:
    chain: dict[str, list[str]] = {"n0": []} | {f"n{i}": [f"n{i - 1}"] for i in range(1, 5000)}
    assert topological_order(chain) == list(chain)
    assert find_cycle(chain) is None
