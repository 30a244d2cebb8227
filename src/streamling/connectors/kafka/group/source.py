"""Which partitions of its topic a Kafka source reads, and from which offsets, when other instances read it too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamling.connectors.kafka.admin import KafkaAdmin
from streamling.connectors.kafka.config import KafkaConfig
from streamling.connectors.kafka.group.consumer import GroupConsumer, RebalanceListener
from streamling.connectors.kafka.group.instances import Instance
from streamling.connectors.kafka.group.lone_members import LoneMembers
from streamling.connectors.kafka.group.membership import ConsumerGroup, Membership, StreamControl, format_partitions
from streamling.connectors.kafka.offsets import Offsets
from streamling.connectors.kafka.reachable import check_reachable
from streamling.connectors.kafka.settings import client_settings
from streamling.errors import StreamlingError
from streamling.plugins.connections import ExternalPosition
from streamling.plugins.sources import Position

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from streamling.connectors.kafka.admin import Committed
    from streamling.connectors.kafka.source_options import KafkaSourceOptions
    from streamling.plugins.context import NodeContext


#: section of the configuration with the brokers
SECTION = "kafka_source"


def group_name(context: NodeContext[KafkaSourceOptions]) -> str:
    """Return the consumer group of a node; a preview has one of its own, to which it commits nothing."""
    config = context.config.part(KafkaConfig)
    configured = None if context.read_only else config.kafka_source.consumer_group_id
    return f"{configured or config.application_id}-{context.name}"


def group_of(context: NodeContext[KafkaSourceOptions]) -> ConsumerGroup:
    """Return that group with its timeouts: for a silent instance, and for one that still has work to finish."""
    session_timeout = context.config.part(KafkaConfig).kafka_source.session_timeout_ms / 1000
    return ConsumerGroup(
        group_name(context), session_timeout, max(context.config.checkpoint_timeout_sec, 2 * session_timeout)
    )


def group_position(context: NodeContext[KafkaSourceOptions], spark: Callable[[], SparkSession]) -> ExternalPosition:
    """Return the offsets of the consumer group, for `Operator.external_positions`."""
    group, topic, config = group_name(context), context.options.topic, context.config.part(KafkaConfig).kafka_source

    def reset() -> bool:
        check_reachable(config.brokers, SECTION, context.network)
        admin = KafkaAdmin(spark(), client_settings(config, SECTION))
        try:
            return admin.delete_committed(group, topic)
        finally:
            admin.close()

    return ExternalPosition(f"the offsets of the consumer group '{group}' for the topic '{topic}'", reset)


class GroupAssignment:
    """The partitions of the source among the instances of its pipeline.

    With shared state the consumer group divides the partitions, and the owner of a partition continues from the
    position in the state. Otherwise this instance reads all of them, and the group only serves to detect a second
    instance. If it is known that there is none, as on a server, this instance does not join: a member costs a thread,
    two connections and heartbeats.
    """

    def __init__(
        self,
        spark: SparkSession,
        admin: KafkaAdmin,
        settings: Mapping[str, str],
        context: NodeContext[KafkaSourceOptions],
        offsets: Offsets,
    ) -> None:
        self._context = context
        self._admin = admin
        self._offsets = offsets
        self.shares = context.state.is_shared
        group = group_of(context)
        self.name = group.name
        #: number of the assignment of each partition that the stream reads, see `Membership.assignment`
        self._read: dict[int, int] = {}
        #: whether the group has assigned partitions to us
        self.is_assigned = not self.shares
        self._logged_assignment: frozenset[int] | None = None
        self._committed: dict[int, int] = {}
        #: offsets that could not be committed before we are a member, or without being one
        self._uncommitted: dict[int, int] = {}
        self._has_warned = False
        instance = Instance.new(context.config.application_id, offsets.topic, shares=self.shares)

        def connect(partitions: RebalanceListener) -> GroupConsumer:
            return GroupConsumer(
                spark,
                {**settings, "client.id": instance.client_id},
                group=group.name,
                topic=offsets.topic,
                session_timeout=group.session_timeout,
                rebalance_timeout=group.rebalance_timeout,
                partitions=partitions,
                metadata=offsets.metadata,
                is_alone=not self.shares,
            )

        self._membership: Membership | None = None
        if self.shares or not context.runs_once:
            stream = StreamControl(context.restart_stream, context.checkpoint)
            self._lone = LoneMembers.shared(context.shared, spark)
            self._membership = Membership(connect, admin, group, instance, stream, context.log, self._lone)
            self._membership.start()

    def position(self, position: Position) -> Position | None:
        """Return ``position`` for the partitions that are assigned to us now. None: nothing to read."""
        if self._membership is None:
            return position
        self._membership.check()
        if not self.shares:
            return position
        assignment = self._membership.assignment()
        if assignment is None:
            return None
        self.is_assigned = True
        self._log_assignment(frozenset(assignment))
        if not assignment:
            self._read = {}
            return None
        kept = {partition for partition, number in assignment.items() if self._read.get(partition) == number}
        keys = {partition: self._offsets.key(partition) for partition in assignment}
        claimed = self._context.state.claim([key for partition, key in keys.items() if partition not in kept])
        self._read = dict(assignment)
        self._committed = {}
        mine = {keys[partition]: position[keys[partition]] for partition in kept if keys[partition] in position}
        return {**mine, **claimed}

    @property
    def partitions(self) -> list[int] | None:
        """The partitions to read; None means all."""
        return sorted(self._read) if self.shares else None

    @property
    def assigned(self) -> frozenset[int] | None:
        """The partitions that the group has assigned to us, of those that the stream reads; None while it changes
        them, and if this instance reads alone."""
        is_settled = self._membership is not None and self._membership.assignment() is not None
        return frozenset(self._read) if self.is_assigned and is_settled else None

    def record_stored(self, position: Position) -> None:
        """Commit ``position``, which has been stored, to the group. Partitions that another instance has claimed
        meanwhile are read from the state again, if they are still assigned to us."""
        lost_keys = {key for key, value in position.items() if value is None}
        if taken := [partition for partition in self._read if self._offsets.key(partition) in lost_keys]:
            self._read = {partition: number for partition, number in self._read.items() if partition not in taken}
            self._context.restart_stream(0)
        self._commit(self._offsets.of(position))

    def close(self) -> None:
        """Leave the group."""
        if self._membership is not None:
            self._membership.close()
            self._context.shared.release(self._lone)
        if self._uncommitted:
            self._admin.commit(self.name, self._offsets.topic, self._uncommitted, self._offsets.metadata())

    def committed(self) -> dict[int, Committed]:
        """Return the offsets committed to the group, used if the state has none."""
        try:
            return self._admin.committed(self.name, self._offsets.topic)
        except StreamlingError as error:
            if error.retriable:
                raise
            self._context.log.warning("cannot read the offsets of the group '%s': %s", self.name, error)
            return {}

    def _commit(self, offsets: Mapping[int, int]) -> None:
        """Commit ``offsets`` to the group. The state is authoritative. The group has the same offsets for monitoring
        tools, and in case the state is lost."""
        moved = {partition: offset for partition, offset in offsets.items() if self._committed.get(partition) != offset}
        if not moved:
            return
        self._committed |= moved
        if self._membership is None:
            self._commit_later(moved)
            return
        if not self._membership.commit(moved):
            try:
                self._admin.commit(self.name, self._offsets.topic, moved, self._offsets.metadata())
            except StreamlingError as error:
                # the group still has a dead member, or we are about to join: commit as a member, or at the end
                self._context.log.debug("offsets will be committed to the group '%s' later: %s", self.name, error)
                self._uncommitted |= moved
                return
        self._uncommitted = {}

    def _commit_later(self, offsets: Mapping[int, int]) -> None:
        """Commit ``offsets`` without being a member, and without waiting; all of them once more at the end."""
        self._uncommitted |= offsets
        metadata = self._offsets.metadata()
        error = self._admin.commit_later(self.name, self._offsets.topic, self._uncommitted, metadata)
        if error is not None and not self._has_warned:
            self._has_warned = True
            self._context.log.warning("cannot commit offsets to the group '%s': %s", self.name, error)

    def _log_assignment(self, assignment: frozenset[int]) -> None:
        if assignment == self._logged_assignment:
            return
        self._logged_assignment = assignment
        topic, group = self._offsets.topic, self.name
        if assignment:
            self._context.log.info(
                "reading %s of the topic '%s' (group '%s')", format_partitions(assignment), topic, group
            )
        else:
            self._context.log.info(
                "no partition of the topic '%s' is assigned to this instance (group '%s'); waiting", topic, group
            )
