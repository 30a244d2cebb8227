from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from streamling.connectors.kafka.config import KafkaSettings
from streamling.connectors.kafka.settings import client_settings, spark_options
from streamling.errors import StreamlingError
from streamling.redaction import redact


def _settings(**config: object) -> dict[str, str]:
    return client_settings(KafkaSettings(**config), "kafka_source")  # type: ignore[arg-type]


def test_a_plain_connection_needs_the_brokers_only() -> None:
    assert _settings(brokers="a:1,b:2") == {
        "bootstrap.servers": "a:1,b:2",
        "security.protocol": "PLAINTEXT",
        "socket.connection.setup.timeout.ms": "5000",
    }


@pytest.mark.parametrize(
    ("mechanism", "module"), [("PLAIN", "PlainLoginModule"), ("SCRAM-SHA-512", "ScramLoginModule")]
)
def test_user_and_password_become_a_jaas_line(mechanism: str, module: str) -> None:
    settings = _settings(
        security_protocol="sasl_ssl", sasl_mechanism=mechanism, sasl_username='al"ice', sasl_password=SecretStr("p\\w;")
    )
    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["sasl.mechanism"] == mechanism
    assert f'{module} required username="al\\"ice" password="p\\\\w;";' in settings["sasl.jaas.config"]


def test_missing_sasl_settings_are_named() -> None:
    with pytest.raises(StreamlingError) as caught:
        _settings(security_protocol="sasl_plaintext", sasl_mechanism="PLAIN")
    assert "kafka_source.sasl_username, kafka_source.sasl_password are not set" in str(caught.value)
    assert "STREAMLING__KAFKA_SOURCE__SASL_USERNAME" in str(caught.value.remedy)


def test_certificates_are_passed_as_text(tmp_path: Path) -> None:
    authority, client = tmp_path / "ca.pem", tmp_path / "client.pem"
    authority.write_text("the authority")
    key = "-----BEGIN PRIVATE KEY-----\nk\n-----END PRIVATE KEY-----"
    certificate = "-----BEGIN CERTIFICATE-----\nc\n-----END CERTIFICATE-----"
    client.write_text(f"{key}\n{certificate}\n")
    settings = _settings(
        security_protocol="ssl", ssl_ca_location=authority, ssl_certificate_location=client, ssl_key_location=client
    )
    assert settings["ssl.truststore.certificates"] == "the authority"
    assert settings["ssl.keystore.key"] == key
    assert settings["ssl.keystore.certificate.chain"] == certificate


def test_a_private_key_is_masked_in_all_output(tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqh", "kiG9w0BAQEFAASCx7", "-----END PRIVATE KEY-----"]
    file.write_text("\n".join([*lines, "-----BEGIN CERTIFICATE-----", "c", "-----END CERTIFICATE-----"]))
    settings = _settings(security_protocol="ssl", ssl_certificate_location=file, ssl_key_location=file)
    shown = redact(f"invalid {settings}")
    assert [line for line in lines[1:3] if line in shown] == []
    assert "-----BEGIN CERTIFICATE-----" in shown


def test_a_key_without_a_certificate_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(StreamlingError, match="one of ssl_certificate_location and ssl_key_location"):
        _settings(security_protocol="ssl", ssl_key_location=tmp_path / "key.pem")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StreamlingError, match=r"kafka_source.ssl_ca_location cannot be read.*none.pem"):
        _settings(security_protocol="ssl", ssl_ca_location=tmp_path / "none.pem")


def test_settings_for_spark_have_a_prefix() -> None:
    assert spark_options({"client.id": "x"}) == {"kafka.client.id": "x"}
