"""Messages that are produced in the background while a pipeline runs."""

from __future__ import annotations

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable
from random import Random

from streamling.dev.services.topics import Message, produce
from tests.connectors.kafka.source_driver import Topic


class Load(ABC):
    """Produces until it is stopped. `produce_some` runs in a thread of its own, every ``pause`` seconds."""

    #: slow enough that a pipeline on a busy machine keeps up
    pause = 0.2

    def __init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @abstractmethod
    def produce_some(self) -> None: ...

    def _run(self) -> None:
        while not self._stopped.wait(self.pause):
            self.produce_some()


class NumberedLoad(Load):
    """Rows of a topic, each with the next number."""

    def __init__(self, topic: Topic, chance: Random) -> None:
        super().__init__()
        self._topic = topic
        self._chance = chance
        self._last = 0

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def produce_rows(self, rows: Iterable[object]) -> None:
        produce(self._topic.kafka.brokers, self._topic.name, [Message(json.dumps(row).encode()) for row in rows])
