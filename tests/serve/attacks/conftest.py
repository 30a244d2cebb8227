"""Servers with something to steal, and the clients that try: an operator of another namespace, and a stranger."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.attacks.attempts import Attacker
from tests.serve.attacks.peers import Listener, listening
from tests.serve.definitions import csv_to_print, write_csv
from tests.serve.server import Client, ServeProcess

#: what no response, log or listener may contain; parts of them would be recognised, too
SECRETS = {
    name: f"stolen-{name}-c41d9e"
    for name in (
        *("kafka", "registry", "postgres", "archive", "clickhouse", "table", "header", "variable", "libpq", "token"),
        *("otlp", "row", "key"),
    )
}
TOKENS = {name: f"{name}-token-0123456789" for name in ("admin", "shop", "evil", "accomplice", "viewer")}

_PREFIX = "STREAMLING__"


def _tokens() -> dict[str, str]:
    found = {f"SERVE__TOKENS__{name.upper()}__VALUE": token for name, token in TOKENS.items()}
    roles = {"admin": "admin", "shop": "operator", "evil": "operator", "accomplice": "operator", "viewer": "viewer"}
    found |= {f"SERVE__TOKENS__{name.upper()}__ROLE": role for name, role in roles.items()}
    found |= {f"SERVE__TOKENS__{name.upper()}__NAMESPACES": name for name in ("shop", "evil")}
    found |= {f"SERVE__TOKENS__{name.upper()}__NAMESPACES": "evil" for name in ("accomplice", "viewer")}
    return found | {"SERVE__TOKENS__FILE__FILE": "token.txt"}


def _connections() -> dict[str, str]:
    """Credentials for systems that do not exist: whoever gets them is not meant to."""
    found: dict[str, str] = {}
    for side in ("KAFKA_SOURCE", "KAFKA_SINK"):
        found |= {
            f"{side}__BROKERS": "kafka.invalid:9092",
            f"{side}__SECURITY_PROTOCOL": "sasl_plaintext",
            f"{side}__SASL_MECHANISM": "PLAIN",
            f"{side}__SASL_USERNAME": "kafka-login-71",
            f"{side}__SASL_PASSWORD": SECRETS["kafka"],
            f"{side}__SCHEMA_REGISTRY_URL": "http://registry.invalid",
            f"{side}__SCHEMA_REGISTRY_USERNAME": "registry-login-71",
            f"{side}__SCHEMA_REGISTRY_PASSWORD": SECRETS["registry"],
        }
    for side in ("CLICKHOUSE_SOURCE", "CLICKHOUSE_SINK"):
        found |= {f"{side}__URL": "http://clickhouse.invalid", f"{side}__PASSWORD": SECRETS["clickhouse"]}
    return found | {
        "POSTGRES_SINK__HOST": "db.invalid",
        "POSTGRES_SINK__PASS": SECRETS["postgres"],
        "POSTGRES_SINK_CONNECTIONS__ARCHIVE__HOST": "archive.invalid",
        "POSTGRES_SINK_CONNECTIONS__ARCHIVE__PASS": SECRETS["archive"],
        "DYNAMIC_TABLE_BACKEND__POSTGRES__HOST": "tables.invalid",
        "DYNAMIC_TABLE_BACKEND__POSTGRES__PASSWORD": SECRETS["table"],
        "HTTP_SECRET_HEADER__API": "X-Api-Key",
        "HTTP_SECRET_VALUE__API": SECRETS["header"],
        "NETWORK__CREDENTIAL_HOSTS": "api.example.com,*.partner.example",
    }


def _files(folder: Path) -> None:
    """What the server has, and rows of the namespace `shop`."""
    (folder / "config.yaml").write_text(f"plugin: {{secrets: {{mine: {{key: {SECRETS['key']}}}}}}}\n")
    (folder / "token.txt").write_text(f"id\n{SECRETS['token']}\n")
    (folder / "home").mkdir()
    write_csv(folder / "orders" / "1.csv", range(3))


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("attacked")
    _files(folder)
    settings = {**_tokens(), **_connections(), "CHECKPOINT_INTERVAL_SEC": "0.5"}
    environment = {
        **{f"{_PREFIX}{name}": value for name, value in settings.items()},
        "PRIVATE_VARIABLE": SECRETS["variable"],
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={SECRETS['otlp']}",
        "PGPASSWORD": SECRETS["libpq"],
        "XDG_CONFIG_HOME": str(folder / "home"),
    }
    process = ServeProcess(folder, environment)
    shop = Client(process.start().address, TOKENS["shop"])
    definition = csv_to_print(folder / "orders").replace("'out' AS pipeline", f"'{SECRETS['row']}' AS pipeline")
    assert shop.create("orders", definition, namespace="shop").status == 201
    process.eventually(lambda: shop.get("/pipelines/shop/orders").json["ready"])
    admin = Client(process.address, TOKENS["admin"])
    assert admin.request("PUT", "/secrets/stored", {"value": SECRETS["key"]}).status in (200, 201, 204)
    try:
        yield process
    finally:
        process.kill()


@pytest.fixture(scope="package")
def public_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """A server whose pipelines reach public addresses, and `localhost` if they call it so."""
    folder = tmp_path_factory.mktemp("public-only")
    _files(folder)
    settings = {**_tokens(), "NETWORK__DENY_PRIVATE": "true", "NETWORK__ALLOW": "localhost"}
    with ServeProcess(folder, {f"{_PREFIX}{name}": value for name, value in settings.items()}) as process:
        process.start()
        yield process


@pytest.fixture
def evil(server: ServeProcess) -> Attacker:
    """An operator of the namespace `evil`."""
    return Attacker(server, Client(server.address, TOKENS["evil"]), "evil")


@pytest.fixture
def insider(public_only: ServeProcess) -> Attacker:
    """The same on the server that denies private addresses."""
    return Attacker(public_only, Client(public_only.address, TOKENS["evil"]), "evil")


@pytest.fixture
def shop(server: ServeProcess) -> Client:
    """The operator whom the others attack."""
    return Client(server.address, TOKENS["shop"])


@pytest.fixture
def stranger(server: ServeProcess) -> Client:
    """Has no token."""
    return Client(server.address)


@pytest.fixture
def listener() -> Iterator[Listener]:
    """The attacker's own machine, which every client takes for the system that it expects."""
    with listening() as made:
        yield made
