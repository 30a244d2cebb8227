"""Resources that pipelines share."""

from __future__ import annotations

import threading

import pytest

from streamling.plugins.shared import SharedResources


class Client:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def test_users_with_equal_settings_get_the_same_thing_until_the_last_one_releases_it():
    shared = SharedResources()
    first, second = (shared.acquire(Client, Client, "server", 1) for _ in range(2))
    other = shared.acquire(Client, Client, "server", 2)
    assert first is second
    assert first is not other
    shared.release(first)
    assert not first.is_closed
    shared.release(second)
    assert (first.is_closed, other.is_closed) == (True, False)
    assert shared.acquire(Client, Client, "server", 1) is not first


def test_a_thing_that_cannot_be_made_is_made_by_the_next_user():
    shared = SharedResources()
    with pytest.raises(ZeroDivisionError):
        shared.acquire(Client, lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    shared.release(shared.acquire(Client, Client))


def test_a_thing_that_takes_long_to_make_holds_up_only_its_own_users():
    shared, started, done = SharedResources(), threading.Event(), threading.Event()

    def slow() -> Client:
        started.set()
        done.wait(60)
        return Client()

    thread = threading.Thread(target=shared.acquire, args=(Client, slow, "slow"))
    thread.start()
    started.wait(60)
    shared.release(shared.acquire(Client, Client, "quick"))
    done.set()
    thread.join()
