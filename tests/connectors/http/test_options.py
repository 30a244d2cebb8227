from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from pydantic import SecretStr, ValidationError

from streamling.connectors.http.options import HttpCall, resolve_secret, secret_key
from streamling.connectors.http.webhook import WebhookSinkOptions
from streamling.errors import StreamlingError
from streamling.pipeline.config.core import NetworkSettings
from streamling.pipeline.options import dump


@dataclass
class Secrets:
    http_secret_header: dict[str, str] = field(default_factory=dict)
    http_secret_value: dict[str, SecretStr] = field(default_factory=dict)
    network: NetworkSettings = field(default_factory=NetworkSettings)


def webhook(**fields: object) -> WebhookSinkOptions:
    return WebhookSinkOptions.model_validate(
        {"type": "webhook", "from": "s", "url": "https://u:pw@example.com/in?token=t0ken", **fields}
    )


def resolve(options: HttpCall, config: Secrets) -> tuple[str, SecretStr] | None:
    return resolve_secret(options, config)


CONFIGURED = Secrets({"my_api_key": "X-Api-Key"}, {"my_api_key": SecretStr("hunter2")})


@pytest.mark.parametrize(
    ("allowed", "is_sent"),
    [(None, True), ((), False), (("example.com",), True), (("other.example.com", "*.org"), False)],
)
def test_the_header_of_a_secret_goes_to_allowed_hosts_only(allowed, is_sent) -> None:
    config = Secrets(
        CONFIGURED.http_secret_header, CONFIGURED.http_secret_value, NetworkSettings(credential_hosts=allowed)
    )
    options = webhook(secret_name="my_api_key")
    if is_sent:
        assert resolve(options, config) == ("X-Api-Key", SecretStr("hunter2"))
        return
    with pytest.raises(StreamlingError, match=r"the secret 'my_api_key' may not be sent to 'example\.com'") as raised:
        resolve(options, config)
    assert "network.credential_hosts" in str(raised.value.remedy)


@pytest.mark.parametrize(
    ("name", "key"), [("key", "key"), ("My API-key", "my_api_key"), ("a..b", "a__b"), ("ÄB", "_b")]
)
def test_secret_name_becomes_a_configuration_key(name: str, key: str) -> None:
    assert secret_key(name) == key


def test_secret_is_a_header() -> None:
    header = resolve(webhook(secret_name="My API-key"), CONFIGURED)
    assert header is not None
    assert (header[0], header[1].get_secret_value()) == ("X-Api-Key", "hunter2")


def test_without_secret_name_there_is_no_secret() -> None:
    assert resolve(webhook(), CONFIGURED) is None


@pytest.mark.parametrize(
    ("config", "message", "remedy"),
    [
        (
            Secrets(),
            "the header and the value of the secret 'x-y' are not configured",
            "set http_secret_header.x_y and http_secret_value.x_y "
            "(environment: STREAMLING__HTTP_SECRET_HEADER__X_Y and STREAMLING__HTTP_SECRET_VALUE__X_Y)",
        ),
        (
            Secrets({"x_y": "X-Api-Key"}),
            "the value of the secret 'x-y' is not configured",
            "set http_secret_value.x_y (environment: STREAMLING__HTTP_SECRET_VALUE__X_Y)",
        ),
        (
            Secrets({}, {"x_y": SecretStr("hunter2")}),
            "the header of the secret 'x-y' is not configured",
            "set http_secret_header.x_y (environment: STREAMLING__HTTP_SECRET_HEADER__X_Y)",
        ),
    ],
)
def test_missing_parts_of_a_secret_are_named_with_their_settings(config: Secrets, message: str, remedy: str) -> None:
    with pytest.raises(StreamlingError, match=message) as raised:
        resolve(webhook(secret_name="x-y"), config)
    assert raised.value.remedy == remedy
    assert not raised.value.internal


def test_a_duplicate_header_is_rejected_whatever_its_case() -> None:
    options = webhook(secret_name="my-api-key", headers={"x-api-key": "other"})
    with pytest.raises(StreamlingError, match="'X-Api-Key' is set by both 'secret_name' and 'headers'"):
        resolve(options, CONFIGURED)


@pytest.mark.parametrize(
    ("header", "value", "expected"),
    [
        ("X Key", "hunter2", "the header name of the secret 'key' is not a valid header name"),
        ("Content-Length", "5", "the header name of the secret 'key' is set for each request"),
        ("X-Key", "hunter2\n", "the value of the secret 'key' contains a line break"),
    ],
)
def test_a_secret_that_is_not_a_valid_header_is_rejected(header: str, value: str, expected: str) -> None:
    with pytest.raises(StreamlingError, match=expected) as raised:
        resolve(webhook(secret_name="key"), Secrets({"key": header}, {"key": SecretStr(value)}))
    assert raised.value.remedy
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_framing_headers_cannot_be_set(name: str) -> None:
    with pytest.raises(ValidationError, match="is set for each request"):
        webhook(headers={name: "5"})


def test_secrets_are_redacted_wherever_options_are_shown() -> None:
    options = webhook(headers={"Authorization": "Bearer hunter2"})
    dumped = dump(options)
    assert dumped["headers"] == {"Authorization": "[REDACTED]"}
    assert dumped["url"] == "https://[REDACTED]@example.com/in?[REDACTED]"
    assert "hunter2" not in repr(options) + str(options) + options.model_dump_json()
    assert options.headers["Authorization"].get_secret_value() == "Bearer hunter2"
