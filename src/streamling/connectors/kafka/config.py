"""How the Kafka source and sink connect to their brokers and schema registry."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr

from streamling.pipeline.config import values
from streamling.pipeline.config.core import CoreConfig
from streamling.pipeline.config.grants import (
    AT_MOST,
    FREE,
    address,
    credential,
    credential_file,
    protection,
)
from streamling.pipeline.config.section import Section, no_effect, unset_means
from streamling.pipeline.config.values import folded

SecurityProtocol = Annotated[
    Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"],
    folded("plaintext", "ssl", "sasl_plaintext", "sasl_ssl"),
]
SaslMechanism = Annotated[
    Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"],
    folded("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
]


class KafkaSettings(Section):
    """Kafka brokers and schema registry."""

    brokers: str = Field(
        default="localhost:9092",
        json_schema_extra=address("brokers"),
        description="Bootstrap servers, comma-separated.",
    )
    security_protocol: SecurityProtocol = Field(
        default="plaintext", json_schema_extra=protection("brokers"), description="Security protocol."
    )
    sasl_mechanism: SaslMechanism | None = Field(
        default=None, json_schema_extra=protection("brokers"), description="SASL mechanism."
    )
    sasl_username: SecretStr | None = Field(
        default=None, json_schema_extra=credential("brokers"), description="SASL user."
    )
    sasl_password: SecretStr | None = Field(
        default=None, json_schema_extra=credential("brokers"), description="SASL password."
    )
    ssl_ca_location: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("brokers"),
        description="PEM file with trusted certificates; defaults to those that Java trusts.",
    )
    ssl_certificate_location: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("brokers"),
        description="PEM file with the client certificate, for brokers that require one.",
    )
    ssl_key_location: values.LocalPath | None = Field(
        default=None,
        json_schema_extra=credential_file("brokers"),
        description="PEM file with the private key of the client certificate (PKCS#8).",
    )
    schema_registry_url: values.Url = Field(
        default="http://localhost:18081",
        json_schema_extra=address("registry"),
        description="URL of the schema registry.",
    )
    schema_registry_username: str | None = Field(
        default=None, json_schema_extra=credential("registry"), description="Registry user."
    )
    schema_registry_password: SecretStr | None = Field(
        default=None, json_schema_extra=credential("registry"), description="Registry password."
    )
    client_id: str | None = Field(default=None, description="Client id sent to the brokers.")


class KafkaSourceSettings(KafkaSettings):
    """Settings of the Kafka source."""

    consumer_group_id: str | None = Field(
        default=None,
        description="Prefix of the consumer group, followed by the node's name; defaults to the application id.",
    )
    session_timeout_ms: int = Field(
        default=10000,
        ge=1000,
        description="Time without a heartbeat after which an instance loses its partitions to the others.",
    )
    lag_report_interval_ms: int = Field(default=60000, ge=1, description="Time between two lag reports.")
    consumer_fetch_timeout_sec: float = Field(
        default=60, gt=0, json_schema_extra=AT_MOST, description="Time limit for one fetch."
    )
    stall_watchdog_timeout_sec: float = Field(
        default=60,
        gt=0,
        json_schema_extra=no_effect("a broker that does not respond is logged and retried"),
        description="No effect: a broker that does not respond is logged and retried.",
    )


class KafkaSinkSettings(KafkaSettings):
    """Settings of the Kafka sink."""


class KafkaConfig(CoreConfig):
    """Settings that the Kafka source and sink add to the configuration."""

    record_batch_interval_ms: int = Field(
        default=100,
        ge=1,
        json_schema_extra={**FREE, **unset_means("no wait")},
        description="Default of `batch_flush_interval` in Kafka sources, except real-time ones.",
    )
    record_batch_size: int = Field(
        default=1000,
        ge=1,
        json_schema_extra={**AT_MOST, **unset_means("200 000 or more")},
        description="Default of `batch_size` in Kafka sources.",
    )
    kafka_source: KafkaSourceSettings = Field(default=KafkaSourceSettings())
    kafka_sink: KafkaSinkSettings = Field(default=KafkaSinkSettings())
