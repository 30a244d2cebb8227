from __future__ import annotations

from streamling.observe.dead_letters import CAPACITY, RecentDeadLetters
from streamling.plugins.rejects import dead_letter_batch


def letters(node: str, *payloads: str):
    count = len(payloads)
    return dead_letter_batch(node, ["broken"] * count, [f"offset {i}" for i in range(count)], payloads)


def test_the_last_rejected_rows_are_shown_newest_first():
    recent = RecentDeadLetters()
    recent.add("orders", letters("orders", "a", "b"))
    (newest, _) = recent.recent("orders")
    assert newest.as_object() == {
        "time": newest.time,
        "node": "orders",
        "error": "broken",
        "position": "offset 1",
        "payload": "b",
    }


def test_rows_of_one_node_or_of_all():
    recent = RecentDeadLetters()
    recent.add("a", letters("a", "1"))
    recent.add("b", letters("b", "2"))
    assert [row.node for row in recent.recent("a")] == ["a"]
    assert {row.node for row in recent.recent()} == {"a", "b"}
    assert len(recent.recent(limit=1)) == 1


def test_memory_is_bounded_and_all_rows_are_counted():
    recent = RecentDeadLetters()
    for _ in range(10):
        recent.add("a", letters("a", *["x" * 100_000] * 20))
    shown = recent.recent("a", 1000)
    assert len(shown) == CAPACITY
    assert all(len(row.payload or "") < 3000 for row in shown)
    assert recent.count("a") == 200
