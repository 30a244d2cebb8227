"""The real services, one of each for the whole test run, started as `streamling dev` starts them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import pytest

from streamling.connectors.postgres.config import PostgresStateSettings
from streamling.dev.services.clickhouse import DATABASE, USER, LocalClickHouse
from streamling.dev.services.kafka import LocalKafka, SecureListeners
from streamling.dev.services.packages import Packages
from streamling.dev.services.postgres import LocalPostgres
from streamling.dev.services.registry import LocalRegistry
from streamling.spark.jvm.java import find_java
from tests.harness.proxy import password_asked

if TYPE_CHECKING:
    import trustme

#: user and password that the secured listeners of the broker accept
KAFKA_USER = "alice"
KAFKA_PASSWORD = "not-so-secret-7"
#: and those of ``secured_registry_url``
REGISTRY_USER = "bob"
REGISTRY_PASSWORD = "hardly-secret-8"


@pytest.fixture(scope="session")
def packages(cache_dir: Path) -> Packages:
    return Packages(cache_dir, find_java(os.environ), short_lived=True)


@pytest.fixture(scope="session")
def services_folder() -> Iterator[Path]:
    """A folder every user can enter: under root, Postgres runs as another user."""
    with tempfile.TemporaryDirectory(prefix="streamling-services-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def kafka_certificates(services_folder: Path) -> Path:
    """A folder with ``ca.pem``, ``broker.pem`` and ``client.pem`` (each a key, then its certificates)."""
    import trustme

    folder = services_folder / "certificates"
    folder.mkdir()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    _write_pem(authority.issue_cert("127.0.0.1", "localhost"), folder / "broker.pem")
    _write_pem(authority.issue_cert("client@streamling.test"), folder / "client.pem")
    return folder


def _write_pem(leaf: trustme.LeafCert, path: Path) -> None:
    """The private key in PKCS#8, the only form Kafka reads, and the certificates."""
    from cryptography.hazmat.primitives import serialization as s

    key = s.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    pem = key.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption())
    path.write_bytes(pem + b"".join(certificate.bytes() for certificate in leaf.cert_chain_pems))


@pytest.fixture(scope="session")
def kafka(services_folder: Path, kafka_certificates: Path, packages: Packages) -> Iterator[LocalKafka]:
    """A broker with a plain listener (`brokers`) and those of `secured_address`."""
    secured = SecureListeners(
        users={KAFKA_USER: KAFKA_PASSWORD},
        certificate=kafka_certificates / "broker.pem",
        authorities=kafka_certificates / "ca.pem",
    )
    with LocalKafka(services_folder / "kafka", packages=packages, secured=secured) as broker:
        yield broker


@pytest.fixture(scope="session")
def registry(services_folder: Path, packages: Packages) -> Iterator[LocalRegistry]:
    with LocalRegistry(services_folder / "registry", packages=packages) as server:
        yield server


@pytest.fixture(scope="session")
def secured_registry_url(registry: LocalRegistry) -> Iterator[str]:
    """The registry once more, for those who know the password."""
    with password_asked(registry.url, REGISTRY_USER, REGISTRY_PASSWORD) as url:
        yield url


@pytest.fixture(scope="session")
def postgres(services_folder: Path) -> Iterator[LocalPostgres]:
    with LocalPostgres(services_folder / "postgres") as server:
        yield server


class ClickHouse(Protocol):
    """A server that tests may use: a local one, or the one of ``STREAMLING_TEST_CLICKHOUSE_URL``."""

    @property
    def url(self) -> str:
        """Its address, without user and password."""

    user: str
    password: str
    database: str


@dataclass(frozen=True)
class RemoteClickHouse:
    """A server that runs elsewhere."""

    url: str
    user: str
    password: str
    database: str

    @classmethod
    def parse(cls, url: str) -> RemoteClickHouse:
        """From ``http(s)://user:password@host:port/database``."""
        parts = urlsplit(url)
        return cls(
            url=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            user=unquote(parts.username or USER),
            password=unquote(parts.password or ""),
            database=parts.path.strip("/") or DATABASE,
        )


@pytest.fixture(scope="session")
def local_clickhouse(services_folder: Path) -> Iterator[LocalClickHouse]:
    """The server of this project, which tests can stop or make fail (``tests.harness.clickhouse``)."""
    with LocalClickHouse(services_folder / "clickhouse") as server:
        yield server


@pytest.fixture(scope="session")
def clickhouse(request: pytest.FixtureRequest) -> ClickHouse:
    if url := os.environ.get("STREAMLING_TEST_CLICKHOUSE_URL"):
        return RemoteClickHouse.parse(url)
    server: LocalClickHouse = request.getfixturevalue("local_clickhouse")
    return server


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that Postgres may enter when the tests run as root; pytest's own are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="streamling-postgres-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def postgres_folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


@pytest.fixture
def postgres_state(postgres: LocalPostgres) -> PostgresStateSettings:
    """The configuration of a state backend in Postgres, with a schema of its own for each test."""
    return PostgresStateSettings(
        host="127.0.0.1",
        port=postgres.port,
        db="postgres",
        user="postgres",
        sslmode="disable",
        state_schema_name=f"schema_{uuid4().hex}",
    )
