"""Messages at a rate through a running pipeline, and when their rows arrive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

from benchmarks.arrivals import Arrivals
from benchmarks.children import RunningProcess

#: messages per second, and seconds, before the first rate is measured
_WARM_UP = (50, 5.0)
#: maximum seconds until the first row arrives, and until the last ones do
_START_SECONDS, _END_SECONDS = 120.0, 30.0
#: seconds that a message may be early: at high rates, a pause after each message would take longer than the message
_TICK = 0.0005

PERCENTILES = (50, 95, 99)

SQL = "{type: sql, primary_key: id, sql: 'SELECT id, sent, upper(name) AS name FROM messages WHERE id >= 0'}"
_PIPELINE = """
sources:
  messages:
    type: kafka
    topic: {topic}
    data_format: json
    primary_key: id
    latency: {latency}
    schema: {{id: int64, sent: float64, name: string}}
transforms:
  shaped: {transform}
sinks:
  out: {{from: shaped, {sink}}}
"""


def pipeline_text(topic: str, arrivals: Arrivals, transform: str = SQL, latency: str = "standard") -> str:
    """Return a pipeline from ``topic`` to ``arrivals``."""
    return _PIPELINE.format(topic=topic, latency=latency, transform=transform, sink=arrivals.sink)


def percentiles(seconds: Sequence[float]) -> dict[int, float]:
    """Return some percentiles in milliseconds."""
    found = sorted(seconds)
    return {percentile: found[min(len(found) - 1, len(found) * percentile // 100)] * 1000 for percentile in PERCENTILES}


class Load:
    """Produces messages at a rate and waits for their rows."""

    def __init__(self, brokers: str, topic: str, arrivals: Arrivals) -> None:
        from confluent_kafka import Producer

        from streamling.dev.services.topics import create_topic

        create_topic(brokers, topic)
        self._producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
        self._topic = topic
        self._arrivals = arrivals
        self._sent = 0

    def start(self, process: RunningProcess) -> None:
        """Wait for the first row, then warm up."""
        self._send()
        self._wait_until(lambda: self._arrivals.count >= 1, _START_SECONDS, process.check)
        self.run(*_WARM_UP)

    def run(self, rate: int, seconds: float, passes: Callable[[int], bool] = lambda id: True) -> list[float]:
        """Return the seconds from the production of each message to the arrival of its row. Messages whose id does not
        pass have none."""
        self._arrivals.clear()
        began, count = time.monotonic(), max(1, int(rate * seconds))
        rows = sum(passes(self._sent + number) for number in range(count))
        for number in range(count):
            if (early := began + number / rate - time.monotonic()) > _TICK:
                time.sleep(early)
            self._send()
        self._wait_until(lambda: self._arrivals.count >= rows, _END_SECONDS)
        return self._arrivals.latencies()

    def _send(self) -> None:
        message = {"id": self._sent, "sent": time.time(), "name": f"name {self._sent}"}
        self._producer.produce(self._topic, json.dumps(message), key=str(self._sent))
        self._producer.poll(0)
        self._sent += 1

    def _wait_until(
        self, condition: Callable[[], bool], seconds: float, check: Callable[[], None] = lambda: None
    ) -> None:
        self._producer.flush()
        deadline = time.monotonic() + seconds
        while not condition():
            check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"only {self._arrivals.count} rows have arrived after {seconds:g} s")
            time.sleep(0.01)
