from __future__ import annotations

import threading

import pytest

from streamling.connectors.clickhouse.table_writer import BackgroundCall


def test_calls_run_one_after_the_other_beside_the_caller() -> None:
    call, may_end, order = BackgroundCall("test"), threading.Event(), []

    def first() -> None:
        may_end.wait(30)
        order.append("first")

    call.start(first)
    order.append("caller")
    may_end.set()
    call.start(lambda: order.append("second"))
    call.wait()
    assert order == ["caller", "first", "second"]


@pytest.mark.parametrize("next_method", [lambda call: call.wait(), lambda call: call.start(lambda: None)])
def test_the_next_method_raises_the_error_of_a_call_once(next_method) -> None:
    call = BackgroundCall("test")

    def fail() -> None:
        raise ValueError("broken")

    call.start(fail)
    with pytest.raises(ValueError, match="broken"):
        next_method(call)
    call.wait()
