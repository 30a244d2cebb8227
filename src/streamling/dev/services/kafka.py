"""A local Kafka broker: a single node that is its own controller."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from streamling.dev.services.extra import require
from streamling.dev.services.packages import Packages, default_packages
from streamling.dev.services.service import HOST, LocalService, accepts
from streamling.errors import StreamlingError

_HEAP_MB = 512
_CLUSTER = "c3RyZWFtbGluZy1kZXYtMQ"  # 16 bytes in base64, as Kafka requires
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")

#: one node, little memory, unlimited retention, no automatic topics
_SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    # after a kill, the new broker must wait until the session of the old one expires: 9 s by default
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    "log.retention.ms": "-1",
    "log.cleaner.dedupe.buffer.size": str(8 * 2**20),  # 128 MiB of heap by default
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
}


@dataclass(frozen=True)
class SecureListeners:
    """Additional listeners that require credentials, one per security protocol, and the accepted credentials."""

    #: password by user, valid for PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512
    users: Mapping[str, str] = field(repr=False)
    #: PEM file with the broker's private key, then its certificates
    certificate: Path
    #: PEM file with the authorities for client certificates on the listener ``mtls``
    authorities: Path


class LocalKafka(LocalService):
    """A broker open to everyone on this machine: for development and tests only.

    With ``secured`` it also has the listeners of `secured_address`.
    """

    name = "kafka"
    title = "Kafka"
    modules = ("psutil", "confluent_kafka")

    #: listener → its security protocol
    _SECURED: ClassVar[Mapping[str, str]] = {
        "sasl_plaintext": "SASL_PLAINTEXT",
        "sasl_ssl": "SASL_SSL",
        "ssl": "SSL",
        "mtls": "SSL",
    }

    def __init__(
        self,
        folder: Path,
        *,
        port: int = 0,
        packages: Packages | None = None,
        secured: SecureListeners | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """``settings`` are broker properties that override ours."""
        listeners = self._SECURED if secured else ()
        super().__init__(folder, {"main": port, "controller": 0, **dict.fromkeys(listeners, 0)})
        self._packages = packages or default_packages()
        self._secured = secured
        self._extra = dict(settings or {})
        self._data = self.folder / "data"
        self._properties = self.folder / "server.properties"

    @property
    def brokers(self) -> str:
        """The bootstrap servers."""
        return f"{HOST}:{self.port}"

    @property
    def address(self) -> str:
        return self.brokers

    def secured_address(self, listener: str) -> str:
        """Return bootstrap servers of ``sasl_plaintext``, ``sasl_ssl`` (both any SASL mechanism), ``ssl`` or
        ``mtls``."""
        return f"{HOST}:{self._port(listener)}"

    def variables(self) -> dict[str, str]:
        return {
            f"STREAMLING__KAFKA_{side}__{name}": value
            for side in ("SOURCE", "SINK")
            for name, value in {"BROKERS": self.brokers, "SECURITY_PROTOCOL": "plaintext"}.items()
        }

    # ── files ───────────────────────────────────────────────────────────────────────────────────────────────

    def _prepare(self) -> None:
        settings = {**_SETTINGS, **self._listeners(), **self._security(), **self._extra}
        self._properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        self._properties.chmod(0o600)
        if not (self._data / "meta.properties").exists():
            self._format()

    def _listeners(self) -> dict[str, str]:
        client = {"PLAINTEXT": "PLAINTEXT"}
        addresses = {"PLAINTEXT": self.brokers}
        if self._secured:
            client |= {listener.upper(): protocol for listener, protocol in self._SECURED.items()}
            addresses |= {listener.upper(): self.secured_address(listener) for listener in self._SECURED}
        advertised = ",".join(f"{name}://{address}" for name, address in addresses.items())
        controller = f"{HOST}:{self._port('controller')}"
        return {
            "listeners": f"{advertised},CONTROLLER://{controller}",
            "advertised.listeners": advertised,
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in {**client, "CONTROLLER": "PLAINTEXT"}.items()
            ),
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self._data),
        }

    def _security(self) -> dict[str, str]:
        if self._secured is None:
            return {}
        users = " ".join(f'user_{name}="{password}"' for name, password in self._secured.users.items())
        modules = {
            "plain": f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};",
            **{name.lower(): "org.apache.kafka.common.security.scram.ScramLoginModule required;" for name in _SCRAM},
        }
        settings = {
            "sasl.enabled.mechanisms": ",".join(["PLAIN", *_SCRAM]),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._secured.certificate),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._secured.authorities),
            "listener.name.mtls.ssl.client.auth": "required",
        }
        for listener in ("sasl_plaintext", "sasl_ssl"):
            settings |= {f"listener.name.{listener}.{m}.sasl.jaas.config": text for m, text in modules.items()}
        return settings

    def _format(self) -> None:
        """Create an empty data folder with the SCRAM users."""
        users = self._secured.users.items() if self._secured else ()
        scram = [f"{kind}=[name={name},password={password}]" for name, password in users for kind in _SCRAM]
        done = subprocess.run(
            [
                *self._java("kafka.tools.StorageTool", quick=True),
                *("format", "--cluster-id", _CLUSTER, "--config", str(self._properties)),
                *(word for credential in scram for word in ("--add-scram", credential)),
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise StreamlingError(f"Kafka could not create {self._data}: {(done.stderr or done.stdout).strip()[-500:]}")

    # ── process ─────────────────────────────────────────────────────────────────────────────────────────────

    def _command(self) -> list[str]:
        return [*self._java("kafka.Kafka"), str(self._properties)]

    def _java(self, main: str, *, quick: bool = False) -> list[str]:
        jars = self._packages.folder("kafka") / "*"  # Java itself expands it
        log4j = Path(__file__).parent / "log4j2.properties"
        line = self._packages.java_command(heap_mb=_HEAP_MB, quick=quick)
        return [*line, f"-Dlog4j2.configurationFile={log4j.as_uri()}", "-cp", str(jars), main]

    def _is_ready(self) -> bool:
        if not accepts(self.port):
            return False
        admin = require("confluent_kafka.admin").AdminClient({"bootstrap.servers": self.brokers, "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=1).brokers)
        except require("confluent_kafka").KafkaException:
            return False
