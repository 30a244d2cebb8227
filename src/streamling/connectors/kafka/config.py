"""How the Kafka source and sink reach their brokers and schema registry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from streamling.config import values
from streamling.config.core import CoreConfig
from streamling.config.section import Section, no_effect
from streamling.config.values import folded

SecurityProtocol = Annotated[
    Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"],
    folded("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
]
SaslMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"],
    folded("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
]


class Kafka(Section):
    """Kafka brokers and schema registry."""

    brokers: str = Field(default="localhost:9092", description="Bootstrap servers, comma-separated.")
    security_protocol: SecurityProtocol = Field(default="plaintext", description="How to connect.")
    sasl_mechanism: SaslMechanism | None = Field(default=None, description="SASL mechanism.")
    sasl_username: SecretStr | None = Field(default=None, description="SASL user.")
    sasl_password: SecretStr | None = Field(default=None, description="SASL password.")
    ssl_ca_location: values.LocalPath | None = Field(
        default=None, description="PEM file with the certificates to trust; else those Java trusts."
    )
    ssl_certificate_location: values.LocalPath | None = Field(
        default=None, description="PEM file with the client's certificate, for brokers that ask for one."
    )
    ssl_key_location: values.LocalPath | None = Field(
        default=None, description="PEM file with its private key (PKCS#8)."
    )
    schema_registry_url: values.Url = Field(default="http://localhost:18081", description="Schema registry.")
    schema_registry_username: str | None = Field(default=None, description="Registry user.")
    schema_registry_password: SecretStr | None = Field(default=None, description="Registry password.")
    client_id: str | None = Field(default=None, description="Client id told to the brokers.")


class KafkaSource(Kafka):
    """Reading Kafka."""

    consumer_group_id: str | None = Field(
        default=None, description="Consumer group, with the node's name behind it; else the application id."
    )
    session_timeout_ms: int = Field(
        default=10000, ge=1000, description="An instance silent that long loses its partitions to the others."
    )
    lag_report_interval_ms: int = Field(default=60000, ge=1, description="Time between two lag reports.")
    consumer_fetch_timeout_sec: float = Field(default=60, gt=0, description="Longest wait for one fetch.")
    stall_watchdog_timeout_sec: float = Field(
        default=60,
        gt=0,
        json_schema_extra=no_effect("a broker that does not answer is logged and waited for"),
        description="No effect: a broker that does not answer is logged and waited for.",
    )


class KafkaSink(Kafka):
    """Writing Kafka."""


class KafkaConfig(CoreConfig):
    """What the Kafka source and sink add to the configuration."""

    record_batch_interval_ms: int = Field(
        default=100,
        ge=1,
        description="`batch_flush_interval` of Kafka sources that have none; no wait unless it is set.",
    )
    record_batch_size: int = Field(
        default=1000,
        ge=1,
        description="`batch_size` of Kafka sources that have none; 200 000 or more unless it is set.",
    )
    kafka_source: KafkaSource = Field(default=KafkaSource())
    kafka_sink: KafkaSink = Field(default=KafkaSink())
