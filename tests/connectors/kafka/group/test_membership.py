"""Members of real consumer groups: which partitions they get, and how these are handed over."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.group.consumer import GroupConsumer, RebalanceListener
from streamling.connectors.kafka.group.instances import Instance
from streamling.connectors.kafka.group.lone_members import LoneMembers
from streamling.connectors.kafka.group.membership import ConsumerGroup, Membership, StreamControl
from streamling.dev.services.topics import add_partitions, create_topic
from streamling.errors import StreamlingError
from tests.harness.pipelines import eventually

pytestmark = [pytest.mark.spark, pytest.mark.services]

TIMEOUT = 6.0


class Reader:
    """Stands in for the stream of one instance: records what is requested of it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.may_finish = threading.Event()
        self.may_finish.set()

    def restart(self, timeout: float) -> bool:
        self.asked.append("restart")
        return True

    def checkpoint(self, timeout: float) -> bool:
        self.asked.append("checkpoint")
        return self.may_finish.wait(timeout)


class Members:
    """Creates members of groups, and ends them."""

    def __init__(self, spark, brokers: str) -> None:
        self._spark = spark
        self._settings = {"bootstrap.servers": brokers}
        self.admin = KafkaAdmin(spark, self._settings)
        self._lone = LoneMembers(spark)
        self._made: list[Membership] = []

    def consumer(self, me: Instance, rebalance_timeout: float, partitions: RebalanceListener) -> GroupConsumer:
        return GroupConsumer(
            self._spark,
            {**self._settings, "client.id": me.client_id},
            group=f"group-{me.topic}",
            topic=me.topic,
            session_timeout=TIMEOUT,
            rebalance_timeout=rebalance_timeout,
            partitions=partitions,
        )

    def join(
        self, topic: str, *, application: str = "app", shares: bool = True, reader: Reader | None = None
    ) -> Membership:
        me = Instance.new(application, topic, shares=shares)
        group = ConsumerGroup(f"group-{topic}", TIMEOUT, 30.0)

        def connect(partitions: RebalanceListener) -> GroupConsumer:
            return self.consumer(me, group.rebalance_timeout, partitions)

        reader = reader or Reader()
        stream = StreamControl(reader.restart, reader.checkpoint)
        member = Membership(connect, self.admin, group, me, stream, logging.getLogger("test"), self._lone)
        member.start()
        self._made.append(member)
        return member

    def close(self) -> None:
        for member in self._made:
            member.close()
        self._lone.close()
        self.admin.close()


@pytest.fixture
def members(spark, kafka) -> Iterator[Members]:
    made = Members(spark, kafka.brokers)
    yield made
    made.close()


@pytest.fixture
def topic(kafka, request) -> Callable[[int], str]:
    def make(partitions: int) -> str:
        name = f"members-{request.node.name[:60]}"
        create_topic(kafka.brokers, name, partitions=partitions)
        return name

    return make


def sizes(*members: Membership) -> list[int | None]:
    found = [member.assignment() for member in members]
    return [None if assignment is None else len(assignment) for assignment in found]


def test_partitions_are_divided_and_handed_over(members: Members, topic) -> None:
    name = topic(4)
    first = members.join(name)
    eventually(lambda: sizes(first) == [4])
    second = members.join(name)
    eventually(lambda: sizes(first, second) == [2, 2])
    assert {*first.assignment(), *second.assignment()} == {0, 1, 2, 3}
    first.close()
    eventually(lambda: sizes(second) == [4])


def test_the_next_owner_waits_until_the_previous_one_has_finished(members: Members, topic) -> None:
    name, reader = topic(2), Reader()
    first = members.join(name, reader=reader)
    eventually(lambda: sizes(first) == [2])
    reader.asked.clear()
    reader.may_finish.clear()
    second = members.join(name)
    eventually(lambda: "checkpoint" in reader.asked)
    assert reader.asked == ["restart", "checkpoint"]
    assert sizes(first) == [None]
    assert not second.assignment()
    reader.may_finish.set()
    eventually(lambda: sizes(first, second) == [1, 1])


def test_one_more_member_than_partitions_waits_for_its_turn(members: Members, topic) -> None:
    name = topic(1)
    first = members.join(name)
    eventually(lambda: sizes(first) == [1])
    second = members.join(name)
    eventually(lambda: sizes(first, second) == [1, 0])
    first.close()
    eventually(lambda: sizes(second) == [1])


def test_new_partitions_are_assigned(members: Members, topic, kafka) -> None:
    name = topic(1)
    first = members.join(name)
    eventually(lambda: sizes(first) == [1])
    add_partitions(kafka.brokers, name, 3)
    eventually(lambda: sizes(first) == [3], 30)


def test_offsets_are_committed_to_the_group(members: Members, topic, kafka) -> None:
    from confluent_kafka import Consumer, TopicPartition

    name = topic(2)
    first = members.join(name)
    eventually(lambda: sizes(first) == [2])
    assert first.commit({0: 7})
    consumer = Consumer({"bootstrap.servers": kafka.brokers, "group.id": f"group-{name}"})
    eventually(lambda: consumer.committed([TopicPartition(name, 0)], timeout=10)[0].offset == 7)
    first.commit({1: 8})
    first.close()
    assert consumer.committed([TopicPartition(name, 1)], timeout=10)[0].offset == 8
    consumer.close()


def test_a_foreign_member_in_the_group_is_an_error(members: Members, topic) -> None:
    name = topic(2)
    first = members.join(name, application="another")
    eventually(lambda: sizes(first) == [2])
    second = members.join(name)
    eventually(lambda: _refusal(second) is not None, 30)
    assert "a member that is not an instance of this pipeline" in str(_refusal(second))
    eventually(lambda: sizes(first) == [2])
    first.check()


def test_a_member_that_was_killed_is_not_a_conflict(members: Members, topic) -> None:
    name = topic(1)
    other = members.consumer(Instance("app", name, False, 0, "other"), 3.0, Ignoring())
    mine = members.join(name, shares=False)
    eventually(lambda: other.poll(0.2) or sizes(mine) != [None])
    assert len(members.admin.members(f"group-{name}", name)) == 2
    # stops polling: the group drops it after 3 s, like a member that was killed
    eventually(lambda: sizes(mine) == [1] and mine.idle_consumer() is not None)
    mine.check()
    other.close({})


class Ignoring(RebalanceListener):
    """A member that ignores all events."""

    def on_assigned(self, partitions: frozenset[int]) -> None: ...

    def on_revoked(self, partitions: frozenset[int]) -> None: ...

    def on_lost(self, partitions: frozenset[int]) -> None: ...


def _refusal(member: Membership) -> StreamlingError | None:
    try:
        member.check()
    except StreamlingError as error:
        return error
    return None
