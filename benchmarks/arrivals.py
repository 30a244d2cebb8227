"""Receives the rows of a pipeline and notes when each of them arrives."""

from __future__ import annotations

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from benchmarks.services import Services

_POLL_SECONDS = 0.002


class Arrivals(ABC):
    """A thread that waits for rows until the end of the ``with`` block. A row has the time at which it was ``sent``."""

    #: the name of the counterpart's function
    kind: ClassVar[str]

    def __init__(self, services: Services, name: str) -> None:
        self._services = services
        self.name = name
        self._latencies: list[float] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    @property
    @abstractmethod
    def sink(self) -> str:
        """The fields of the sink."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Where the counterpart sends its rows."""

    @abstractmethod
    def _run(self) -> None: ...

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def count(self) -> int:
        return len(self._latencies)

    def clear(self) -> None:
        self._latencies.clear()

    def latencies(self) -> list[float]:
        return list(self._latencies)

    def _arrived(self, sent: Iterable[float]) -> None:
        now = time.time()
        self._latencies.extend(now - each for each in sent)


class KafkaArrivals(Arrivals):
    """A consumer of the topic that the sink writes."""

    kind = "to_kafka"

    @property
    def sink(self) -> str:
        return f"type: kafka, topic: {self.name}, data_format: json"

    @property
    def address(self) -> str:
        return self.name

    def __enter__(self) -> Self:
        from streamling.dev.services.topics import create_topic

        create_topic(self._services.brokers, self.name)
        return super().__enter__()

    def _run(self) -> None:
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(
            {"bootstrap.servers": self._services.brokers, "group.id": self.name, "fetch.wait.max.ms": 5}
        )
        consumer.assign([TopicPartition(self.name, 0, 0)])
        while not self._stopped.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._arrived([json.loads(message.value() or b"")["sent"]])
        consumer.close()


class PostgresArrivals(Arrivals):
    """Looks into the table every few milliseconds."""

    kind = "to_postgres"

    @property
    def sink(self) -> str:
        return f"type: postgres, schema: public, table: {self.name}"

    @property
    def address(self) -> str:
        return f"{self._services.dsn} {self.name}"

    def __enter__(self) -> Self:
        import psycopg

        with psycopg.connect(self._services.dsn, autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE {self.name} (id bigint PRIMARY KEY, sent double precision, name text)".encode()
            )
        return super().__enter__()

    def _run(self) -> None:
        import psycopg

        last, query = -1, f"SELECT id, sent FROM {self.name} WHERE id > %s ORDER BY id".encode()
        with psycopg.connect(self._services.dsn, autocommit=True) as connection:
            while not self._stopped.wait(_POLL_SECONDS):
                if found := connection.execute(query, [last]).fetchall():
                    last = found[-1][0]
                    self._arrived(sent for _, sent in found)


class WebhookArrivals(Arrivals):
    """An HTTP server."""

    kind = "to_webhook"

    def __init__(self, services: Services, name: str) -> None:
        super().__init__(services, name)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        arrived = self._arrived

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                arrived(row["sent"] for row in rows)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                return None

        return Handler

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    @property
    def sink(self) -> str:
        return f"type: webhook, url: '{self.address}'"

    def _run(self) -> None:
        self._server.serve_forever(poll_interval=0.1)

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        super().__exit__(*_)
        self._server.server_close()
