from __future__ import annotations

import pytest

from streamling.connectors.kafka.admin import Member
from streamling.connectors.kafka.group.instances import Instance

SHARED = Instance("app", "orders", True, 1000, "a")
ALONE = Instance("app", "orders", False, 1000, "a")


def member(client_id: str, *partitions: int) -> Member:
    return Member(client_id, "10.0.0.1", frozenset(partitions))


def at(instance: Instance, started: int, **changes: object) -> Instance:
    return Instance(**{**vars(instance), "started": started, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("application", ["app", "team/app", "a-b c", "ünï"])
def test_a_client_id_identifies_its_instance(application: str) -> None:
    instance = Instance.new(application, "shop.orders-1", shares=True)
    assert Instance.of(instance.client_id) == instance


@pytest.mark.parametrize(
    "client_id", ["", "rdkafka", "streamling", "streamling/app/t/else/1-a", "streamling/a/t/alone/x"]
)
def test_other_client_ids_are_not_instances(client_id: str) -> None:
    assert Instance.of(client_id) is None


def test_instances_that_share_their_state_run_together() -> None:
    assert SHARED.conflicting_member([member(SHARED.client_id, 0), member(at(SHARED, 900).client_id, 1)]) is None


@pytest.mark.parametrize(("mine", "other"), [(ALONE, ALONE), (ALONE, SHARED), (SHARED, ALONE)])
def test_without_shared_state_the_instance_that_started_later_yields(mine: Instance, other: Instance) -> None:
    older, younger = at(other, 900), at(other, 1100)
    assert mine.conflicting_member([member(younger.client_id, 0)]) is None
    conflicting_member = mine.conflicting_member([member(younger.client_id), member(older.client_id)])
    assert conflicting_member is not None
    assert conflicting_member.client_id == older.client_id
    assert "another instance of the application 'app'" in str(mine.conflict_error("g", conflicting_member))
    assert "since 1970-01-01 00:00:00 UTC" in str(mine.conflict_error("g", conflicting_member))


def test_two_instances_that_started_at_the_same_moment_agree_on_which_one_yields() -> None:
    a, b = ALONE, at(ALONE, 1000, token="b")
    assert a.conflicting_member([member(b.client_id)]) is None
    assert b.conflicting_member([member(a.client_id)]) is not None


def test_a_foreign_member_with_partitions_conflicts_with_instances_that_share() -> None:
    stranger = member("rdkafka", 1, 2)
    assert ALONE.conflicting_member([stranger]) is None
    assert SHARED.conflicting_member([member("rdkafka")]) is None
    assert SHARED.conflicting_member([stranger]) == stranger
    assert "'rdkafka' at 10.0.0.1, and partitions of the topic 'orders' are assigned to it" in str(
        SHARED.conflict_error("g", stranger)
    )
    assert SHARED.conflict_error("g", stranger).remedy is not None


def test_the_same_application_may_read_another_topic_in_the_same_group() -> None:
    assert ALONE.conflicting_member([member(at(ALONE, 900, topic="clicks").client_id)]) is None
    assert SHARED.conflicting_member([member(at(SHARED, 900, topic="clicks").client_id)]) is None
