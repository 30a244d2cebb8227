"""A pipeline in miniature around the real coordinator: sources, bounded lanes, buffering sinks, a state
backend, and faults at any step. Everything random comes from one seed, so that a failure can be replayed.

A *world* outlives crashes: what sinks have made durable, and what the state backend holds. A *life* is one
process: it starts from the stored positions and ends by a crash, a failure, a timeout, or the terminal
checkpoint.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import Any

from streamling.engine.checkpoint.coordinator import Coordinator
from streamling.engine.checkpoint.messages import (
    Ack,
    Action,
    Event,
    Failure,
    Finalizer,
    Marked,
    Marker,
    Moved,
    Stop,
    Store,
    Stored,
    StoreFailed,
    TerminalRequested,
    Tick,
)
from streamling.errors import StreamlingError

LANE_CAPACITY = 3
INTERVAL = 1.0
TIMEOUT = 30.0
TERMINAL_PATIENCE = 12.0
#: steps in one life; a correct pipeline without faults needs a fraction of it
MAX_STEPS = 60_000


class InvariantError(AssertionError):
    """What must never happen has happened."""


class LifeOver(Exception):
    """The process ends; ``clean`` when its terminal checkpoint was finalized."""

    def __init__(self, reason: str, *, clean: bool = False) -> None:
        super().__init__(reason)
        self.clean = clean


@dataclass(frozen=True)
class Faults:
    """Chances per opportunity."""

    crash: float = 0.0
    lose_ack: float = 0.0
    double_ack: float = 0.0
    flush_fails: float = 0.0
    store_fails: float = 0.0
    store_breaks: float = 0.0
    shutdown: float = 0.0
    #: how much less often a sink gets its turn than a source
    sink_slowness: int = 1

    @classmethod
    def drawn(cls, rng: Random) -> Faults:
        """Most runs see a few kinds of faults, some see none or all."""

        def maybe(chance: float) -> float:
            return rng.choice([0.0, 0.0, chance])

        return cls(
            crash=rng.choice([0.0, 0.002, 0.01]),
            lose_ack=maybe(0.05),
            double_ack=maybe(0.3),
            flush_fails=maybe(0.03),
            store_fails=maybe(0.4),
            store_breaks=maybe(0.05),
            shutdown=maybe(0.02),
            sink_slowness=rng.choice([1, 1, 4]),
        )


@dataclass
class World:
    """What survives a crash."""

    #: rows that each source will ever have
    totals: dict[str, int]
    #: sinks fed by each source
    wiring: dict[str, tuple[str, ...]]
    #: (source, row) pairs that are safe in each sink
    durable: dict[str, set[tuple[str, int]]]
    stored: dict[str, int] = field(default_factory=dict)

    @classmethod
    def drawn(cls, rng: Random) -> World:
        sources = [f"source{i}" for i in range(rng.randint(1, 3))]
        sinks = [f"sink{i}" for i in range(rng.randint(1, 3))]
        wiring = {source: set(rng.sample(sinks, rng.randint(1, len(sinks)))) for source in sources}
        for sink in sinks:
            if not any(sink in fed for fed in wiring.values()):
                wiring[rng.choice(sources)].add(sink)
        return cls(
            totals={source: rng.randint(0, 100) for source in sources},
            wiring={source: tuple(sorted(fed)) for source, fed in wiring.items()},
            durable={sink: set() for sink in sinks},
        )

    def feeders(self, sink: str) -> set[str]:
        return {source for source, fed in self.wiring.items() if sink in fed}

    def store(self, entries: dict[str, Any]) -> None:
        """The state backend takes ``entries``: the moment at which promises are made."""
        for source, position in entries.items():
            if position < self.stored.get(source, 0):
                raise InvariantError(f"{source} went back from {self.stored[source]} to {position}")
            for sink in self.wiring[source]:
                lost = [row for row in range(position) if (source, row) not in self.durable[sink]]
                if lost:
                    raise InvariantError(f"{source} committed {position}, but {sink} lacks rows {lost}")
        self.stored.update(entries)

    def check_complete(self) -> None:
        for source, total in self.totals.items():
            for sink in self.wiring[source]:
                missing = [row for row in range(total) if (source, row) not in self.durable[sink]]
                if missing:
                    raise InvariantError(f"{sink} never got rows {missing} of {source}")
            if total and self.stored.get(source) != total:
                raise InvariantError(f"{source} ended at {self.stored.get(source)}, not at {total}")


@dataclass
class Lane:
    """A bounded queue in front of a sink that buffers until it is flushed."""

    sink: str
    feeders: set[str]
    queue: deque[tuple[str, str, int]] = field(default_factory=deque)
    buffer: list[tuple[str, int]] = field(default_factory=list)
    arrived: dict[int, set[str]] = field(default_factory=dict)
    ended_feeders: set[str] = field(default_factory=set)

    @property
    def full(self) -> bool:
        return len(self.queue) >= LANE_CAPACITY


@dataclass
class Life:
    """One run of the process."""

    rng: Random
    world: World
    faults: Faults
    coordinator_class: type[Coordinator]
    now: float = 0.0

    def __post_init__(self) -> None:
        world = self.world
        self.positions = {source: world.stored.get(source, 0) for source in world.totals}
        self.requested: dict[str, int] = {}
        self.ended: set[str] = set()
        self.lanes = {sink: Lane(sink, world.feeders(sink)) for sink in world.durable}
        self.transit: list[Event] = []
        self.storing: Store | None = None
        self.store_away_until = 0.0
        self.draining_since: float | None = None
        #: sources that have delivered rows since their last marker
        self.moved: set[str] = set()
        self.coordinator = self.coordinator_class(
            flows=world.totals, sinks=world.durable, interval=INTERVAL, timeout=TIMEOUT, now=self.now
        )

    def run(self) -> LifeOver:
        for _ in range(MAX_STEPS):
            try:
                if self.rng.random() < self.faults.crash:
                    return LifeOver("crash")
                self.step()
            except LifeOver as is_finished:
                return is_finished
        raise InvariantError("the pipeline makes no progress")

    def step(self) -> None:
        moves = [self.pass_time, self.deliver, self.store]
        moves += [lambda source=source: self.source(source) for source in self.positions]
        moves += [
            lambda lane=lane: self.sink(lane)
            for lane in self.lanes.values()
            if self.rng.randrange(self.faults.sink_slowness) == 0
        ]
        self.rng.choice(moves)()

    # ── time and messages ───────────────────────────────────────────────────────────────────────────────────

    def pass_time(self) -> None:
        self.now += self.rng.choice([0.01, 0.1, 0.5])
        self.handle(Tick())
        everything_read = all(self.positions[s] == total for s, total in self.world.totals.items())
        if self.draining_since is None:
            if everything_read or self.rng.random() < self.faults.shutdown:
                self.draining_since = self.now
                self.handle(TerminalRequested())
        elif self.now - self.draining_since > TERMINAL_PATIENCE:
            self.handle(Stop())
            self.store()  # what was in flight is not recalled
            raise LifeOver("the terminal checkpoint took too long")

    def deliver(self) -> None:
        if self.transit:
            self.handle(self.transit.pop(self.rng.randrange(len(self.transit))))

    def handle(self, event: Event) -> None:
        for action in self.coordinator.handle(event, self.now):
            self.obey(action)

    def obey(self, action: Action) -> None:
        match action:
            case Marker():
                self.requested = dict.fromkeys(self.positions, action.epoch)
            case Store():
                if self.storing is not None:
                    raise InvariantError("two stores at once")
                self.storing = action
            case Finalizer():
                self.check_finalizer(action)
                if action.terminal:
                    raise LifeOver("drained", clean=True)
            case Failure():
                raise LifeOver(str(action.error))

    def check_finalizer(self, finalizer: Finalizer) -> None:
        for source, position in finalizer.positions.items():
            if self.world.stored.get(source) != position[source]:
                raise InvariantError(f"epoch {finalizer.epoch} was announced before {source} was stored")

    def store(self) -> None:
        action, self.storing = self.storing, None
        if action is None:
            return
        if self.now >= self.store_away_until and self.rng.random() < self.faults.store_fails:
            self.store_away_until = self.now + self.rng.choice([0.0, 1.0, 3 * TIMEOUT])
            if self.rng.random() < 0.5:  # it was written, only the answer got lost
                self.world.store(dict(action.entries))
            self.store_is_away(action)
        elif self.now < self.store_away_until:
            self.store_is_away(action)
        elif self.rng.random() < self.faults.store_breaks:
            self.handle(StoreFailed(action.epoch, StreamlingError("the state backend is full")))
        else:
            self.world.store(dict(action.entries))
            if self.rng.random() < self.faults.crash * 20:
                raise LifeOver("crash between storing and telling")
            self.handle(Stored(action.epoch))

    def store_is_away(self, action: Store) -> None:
        self.handle(StoreFailed(action.epoch, StreamlingError.transient("the state backend is unavailable")))

    # ── data ────────────────────────────────────────────────────────────────────────────────────────────────

    def source(self, source: str) -> None:
        lanes = [self.lanes[sink] for sink in self.world.wiring[source]]
        if any(lane.full for lane in lanes):
            return  # back-pressure
        if source in self.requested:
            self.mark(source, self.requested.pop(source), lanes)
        elif self.positions[source] < self.world.totals[source] and self.draining_since is None:
            for lane in lanes:
                lane.queue.append(("row", source, self.positions[source]))
            self.positions[source] += 1
            if source not in self.moved:
                self.moved.add(source)
                self.transit.append(Moved())
        elif self.positions[source] == self.world.totals[source] and source not in self.ended:
            self.ended.add(source)
            for lane in lanes:
                lane.queue.append(("end", source, 0))

    def mark(self, source: str, epoch: int, lanes: list[Lane]) -> None:
        for lane in lanes:
            lane.queue.append(("mark", source, epoch))
        self.moved.discard(source)
        self.transit.append(Marked(source, epoch, {source: self.positions[source]}))

    def sink(self, lane: Lane) -> None:
        if not lane.queue:
            return
        kind, source, number = lane.queue.popleft()
        if kind == "row":
            lane.buffer.append((source, number))
        elif kind == "mark":
            self.on_mark(lane, source, number)
        else:
            lane.ended_feeders.add(source)
            if lane.ended_feeders == lane.feeders:
                self.flush(lane)

    def on_mark(self, lane: Lane, source: str, epoch: int) -> None:
        arrived = lane.arrived.setdefault(epoch, set())
        arrived.add(source)
        if arrived == lane.feeders:
            self.flush(lane)
            ack = Ack(lane.sink, epoch)
            if self.rng.random() >= self.faults.lose_ack:
                self.transit.append(ack)
            if self.rng.random() < self.faults.double_ack:
                self.transit.append(ack)

    def flush(self, lane: Lane) -> None:
        durable = self.world.durable[lane.sink]
        if self.rng.random() < self.faults.flush_fails:
            # some of it may have arrived all the same
            durable.update(lane.buffer[: self.rng.randint(0, len(lane.buffer))])
            raise LifeOver(f"{lane.sink} failed")
        durable.update(lane.buffer)
        lane.buffer.clear()


def simulate(seed: int, coordinator_class: type[Coordinator] = Coordinator) -> list[str]:
    """Lives with faults, then one without: everything must have arrived. How the lives ended."""
    rng = Random(seed)
    world = World.drawn(rng)
    faults = Faults.drawn(rng)
    endings: list[str] = []
    try:
        endings += (str(Life(rng, world, faults, coordinator_class).run()) for _ in range(rng.randint(1, 6)))
        last = Life(rng, world, Faults(), coordinator_class).run()
        if not last.clean:
            raise InvariantError(f"the last life without faults ended with: {last}")
        world.check_complete()
    except InvariantError as broken:
        raise InvariantError(f"seed {seed}: {broken}; lives ended: {endings}; {faults}") from None
    return endings
