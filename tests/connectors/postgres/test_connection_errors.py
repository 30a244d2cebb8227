"""Failed connections: the error message, and how soon it appears."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.postgres.sink import PostgresSink, PostgresSinkOptions
from streamling.dev.services.postgres import LocalPostgres
from streamling.engine.state.store import state_store
from streamling.errors import StreamlingError
from streamling.pipeline.config import AppConfig
from streamling.plugins.context import NodeContext
from streamling.plugins.placeholders import NoopMetrics, UnavailableState
from streamling.transforms.dynamic_table.backends import create_store
from streamling.transforms.dynamic_table.store import TableStore
from streamling.transforms.dynamic_table.transform import DynamicTableTransformOptions
from tests.connectors.postgres.conftest import PASSWORD, ROLE
from tests.harness.tcp_front import TcpFront

pytestmark = pytest.mark.services

#: the fault → error message and remedy; {section} and {password} are the settings' names
WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "no password": (
        {"user": ROLE},
        f"requires a password for user '{ROLE}', but none is set",
        "set {password} (environment variable STREAMLING__{variable}), or PGPASSWORD",
    ),
    "wrong password": (
        {"user": ROLE, "password": "hush-hush-6"},
        f"rejected user '{ROLE}' or its password",
        "correct {section}.user or {password}",
    ),
    "unknown role": ({"user": "nobody_here"}, "has no role 'nobody_here'", "correct {section}.user"),
    "not let in": ({"user": "not_let_in"}, "does not accept this connection: pg_hba.conf rejects", "pg_hba.conf"),
    "unknown database": ({"db": "no_such_db"}, "has no database 'no_such_db'", "correct {section}.db"),
    "no TLS": ({"sslmode": "require"}, "server does not support SSL", "correct {section}.sslmode"),
    "unknown host": (
        {"host": "no-such-host.invalid"},
        "the host name 'no-such-host.invalid' cannot be resolved",
        "correct {section}.host",
    ),
    "refused port": (
        {"port": 1},
        "Connection refused",
        "start the server, or correct {section}.host or {section}.port",
    ),
}


def config(server: LocalPostgres, section: str, wrong: dict[str, Any], **more: Any) -> AppConfig:
    good = {"host": "127.0.0.1", "port": server.port, "db": "postgres", "user": "postgres", "sslmode": "disable"}
    settings = {**good, **wrong}
    if section == "postgres_sink":
        settings["pass"] = settings.pop("password", "")
    made: dict[str, Any] = settings
    for name in reversed(section.split(".")):
        made = {name: made}
    if section.startswith("state_backend"):
        made["state_backend"]["backend_type"] = "Postgres"
    return AppConfig(**{"startup_timeout_sec": 0, **made, **more})


def context(config: AppConfig, options: Any) -> NodeContext[Any]:
    schema = pa.schema([pa.field("id", pa.int64())])
    return NodeContext("out", options, config, UnavailableState("none"), NoopMetrics(), ("id",), schema)


def use_sink(config: AppConfig) -> None:
    options = PostgresSinkOptions.model_validate({"type": "postgres", "from": "in", "schema": "s", "table": "t"})
    PostgresSink(context(config, options)).open()


def table(config: AppConfig) -> TableStore:
    fields = {"type": "dynamic_table", "backend_type": "Postgres", "backend_entity_name": "t"}
    return create_store(context(config, DynamicTableTransformOptions.model_validate(fields)))


def use_table(config: AppConfig) -> None:
    with closing(table(config)) as store:
        assert store.find_existing(["x"]) == set()


USERS = {
    "postgres_sink": use_sink,
    "dynamic_table_backend.postgres": use_table,
    "state_backend.postgres": lambda config: state_store(config).open(),
}


@pytest.mark.parametrize("section", USERS)
@pytest.mark.parametrize("case", WRONG)
def test_connection_errors(guarded: LocalPostgres, section: str, case: str) -> None:
    wrong, says, remedy = WRONG[case]
    with pytest.raises(StreamlingError) as raised:
        USERS[section](config(guarded, section, wrong))
    error = raised.value
    assert says in str(error)
    password = f"{section}.{'pass' if section == 'postgres_sink' else 'password'}"
    variable = password.replace(".", "__").upper()
    assert remedy.format(section=section, password=password, variable=variable) in str(error.remedy)
    assert "\n" not in str(error)
    assert "hush-hush" not in str(error)


def test_the_setting_of_a_sink_with_its_own_connection_is_named(guarded: LocalPostgres) -> None:
    own = {"out": {"host": "no-such-host.invalid"}}
    with pytest.raises(StreamlingError) as raised:
        use_sink(config(guarded, "postgres_sink", {}, postgres_sink_connections=own))
    assert raised.value.remedy == "correct postgres_sink_connections.out.host"


def test_the_right_password_connects(guarded: LocalPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    for given, variable in ((PASSWORD, ""), ("", PASSWORD)):
        monkeypatch.setenv("PGPASSWORD", variable)
        right = config(guarded, "dynamic_table_backend.postgres", {"user": ROLE, "password": given})
        with pytest.raises(StreamlingError, match="permission denied"):  # in, and may do nothing
            use_table(right)


def test_a_server_that_starts_a_moment_later_is_retried(postgres: LocalPostgres) -> None:
    """As in a set of containers that start together."""
    front = TcpFront(postgres.port)
    front.open_after(0.5)
    settings = config(postgres, "dynamic_table_backend.postgres", {"port": front.port}, startup_timeout_sec=20)
    use_table(settings)
    front.close()


def test_a_server_that_does_not_start_is_retried_as_long_as_configured(postgres: LocalPostgres) -> None:
    port = TcpFront(postgres.port).port
    settings = config(postgres, "dynamic_table_backend.postgres", {"port": port}, startup_timeout_sec=3)
    began = time.monotonic()
    with pytest.raises(StreamlingError):
        use_table(settings)
    assert 1 < time.monotonic() - began < 8


def test_an_outage_after_the_start_is_retried(postgres: LocalPostgres) -> None:
    """Also if an address that has never responded is not retried."""
    front = TcpFront(postgres.port).open()
    with closing(table(config(postgres, "dynamic_table_backend.postgres", {"port": front.port}))) as store:
        store.add(["kept"])
        front.close()
        front.open_after(0.5)
        assert store.find_existing(["kept", "unknown"]) == {"kept"}
    front.close()
