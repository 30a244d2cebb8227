"""Unusable standalone masters."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from streamling.errors import StreamlingError
from streamling.spark.jvm.cluster import application_rejected_error, check_master


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def test_one_master_of_several_is_enough(listening: int, closed: int) -> None:
    check_master(f"spark://127.0.0.1:{closed},127.0.0.1:{listening}")


def test_masters_that_do_not_respond_are_named_with_the_reason(closed: int) -> None:
    with pytest.raises(StreamlingError, match=f"spark://127.0.0.1:{closed} cannot be reached: .*refused") as caught:
        check_master(f"spark://127.0.0.1:{closed}")
    assert "spark.master" in str(caught.value.remedy)


def test_an_address_without_a_port_is_one_that_cannot_be_reached() -> None:
    with pytest.raises(StreamlingError, match="'host' has no port"):
        check_master("spark://host")


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "yarn", "k8s://https://host"])
def test_other_masters_are_left_to_spark(master: str) -> None:
    check_master(master)


def test_a_master_that_rejects_the_application_is_named() -> None:
    said = "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext."
    assert "did not accept the application" in str(application_rejected_error("spark://host:7077", said))
    assert application_rejected_error("local[2]", said) is None
    assert application_rejected_error("spark://host:7077", "another error") is None
