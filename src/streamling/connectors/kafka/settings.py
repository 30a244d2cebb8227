"""Converts the Kafka configuration to settings of the Java clients, which Spark uses."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from streamling.connectors.kafka.config import KafkaSettings
from streamling.errors import StreamlingError
from streamling.redaction import add_secrets

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}


def client_settings(config: KafkaSettings, section: str) -> dict[str, str]:
    """Return the settings that every client needs to connect to the brokers; ``section`` names the section of the
    configuration in errors. The result contains secrets."""
    settings = {
        "bootstrap.servers": config.brokers,
        "security.protocol": config.security_protocol.upper(),
        "socket.connection.setup.timeout.ms": "5000",
    }
    if config.client_id:
        settings["client.id"] = config.client_id
    if config.security_protocol.startswith("sasl"):
        settings |= _sasl(config, section)
    if config.security_protocol.endswith("ssl"):
        settings |= _ssl(config, section)
    return settings


def spark_options(settings: Mapping[str, str]) -> dict[str, str]:
    """Convert settings of a client to options of Spark's Kafka source and sink."""
    return {f"kafka.{name}": value for name, value in settings.items()}


def _sasl(config: KafkaSettings, section: str) -> dict[str, str]:
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
            f"{section}.sasl_mechanism is {mechanism}, which is not supported yet", remedy=f"use {', '.join(_LOGIN)}"
        )
    login = f"{_LOGIN[mechanism]} required username={_quoted(user.get_secret_value())}"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{login} password={_quoted(password.get_secret_value())};",
    }


def _ssl(config: KafkaSettings, section: str) -> dict[str, str]:
    """Return the settings for TLS. Certificates are passed as text: executors on other machines do not have the
    files."""
    settings = {}
    if config.ssl_ca_location is not None:
        settings["ssl.truststore.type"] = "PEM"
        settings["ssl.truststore.certificates"] = _read(config.ssl_ca_location, f"{section}.ssl_ca_location")
    certificate, key = config.ssl_certificate_location, config.ssl_key_location
    if (certificate is None) != (key is None):
        raise StreamlingError.user(
            f"{section} sets only one of ssl_certificate_location and ssl_key_location", remedy="set both, or none"
        )
    if certificate is not None and key is not None:
        chain = _read(certificate, f"{section}.ssl_certificate_location")
        private = _parts(_read(key, f"{section}.ssl_key_location"), "PRIVATE KEY")
        add_secrets(_material(private))
        settings["ssl.keystore.type"] = "PEM"
        settings["ssl.keystore.certificate.chain"] = _parts(chain, "CERTIFICATE")
        settings["ssl.keystore.key"] = private
    return settings


def _read(path: Path, setting: str) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise StreamlingError.user(f"{setting} cannot be read: {error}") from None


def _parts(pem: str, kind: str) -> str:
    """Return the parts of a PEM text whose label ends in ``kind``: one file may hold a key and certificates."""
    found = re.finditer(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----", pem, re.DOTALL)
    return "\n".join(part[0] for part in found if part[1].endswith(kind))


def _material(pem: str) -> list[str]:
    """Return the secret lines of a PEM text; the lines around them are always the same."""
    return [line for line in pem.splitlines() if not line.startswith("-----")]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
