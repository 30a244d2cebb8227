"""The Kafka part of the configuration as settings of the Java clients, which Spark uses."""

from __future__ import annotations

from collections.abc import Mapping

from streamling.config.sections import Kafka
from streamling.errors import StreamlingError

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}


def client_settings(config: Kafka, section: str) -> dict[str, str]:
    """What every client needs to reach the brokers; ``section`` names the part of the configuration in errors.
    The result holds secrets."""
    settings = {
        "bootstrap.servers": config.brokers,
        "security.protocol": config.security_protocol.upper(),
        "socket.connection.setup.timeout.ms": "5000",
    }
    if config.client_id:
        settings["client.id"] = config.client_id
    if config.security_protocol.startswith("sasl"):
        settings |= _sasl(config, section)
    return settings


def spark_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings of a client as options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def _sasl(config: Kafka, section: str) -> dict[str, str]:
    missing = [
        f"{section}.{name}"
        for name in ("sasl_mechanism", "sasl_username", "sasl_password")
        if getattr(config, name) is None
    ]
    if missing:
        raise StreamlingError.user(
            f"{section}.security_protocol is {config.security_protocol}, but {', '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not set",
            remedy=f"set {'it' if len(missing) == 1 else 'them'}, for example "
            f"STREAMLING__{missing[0].upper().replace('.', '__')}",
        )
    mechanism, user, password = config.sasl_mechanism, config.sasl_username, config.sasl_password
    assert mechanism is not None
    assert user is not None
    assert password is not None
    if mechanism not in _LOGIN:
        raise StreamlingError.user(
            f"{section}.sasl_mechanism is {mechanism}, which cannot be used yet", remedy=f"use {', '.join(_LOGIN)}"
        )
    login = f"{_LOGIN[mechanism]} required username={_quoted(user.get_secret_value())}"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{login} password={_quoted(password.get_secret_value())};",
    }


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
