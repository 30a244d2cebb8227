from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from streamling.pipeline.document.scalars import (
    BadValueError,
    Columns,
    Duration,
    HttpUrl,
    PrimaryKey,
    Secret,
    format_duration,
    parse_duration,
    redact_url,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1.0),
        ("500ms", 0.5),
        ("250 us", 0.00025),
        ("10ns", 1e-8),
        ("1m 30s", 90.0),
        ("1m30s", 90.0),
        ("2h", 7200.0),
        ("2hours 5min", 7500.0),
        ("1day", 86400.0),
        ("1w", 604800.0),
        ("1M", 30.44 * 86400),
        ("1y", 365.25 * 86400),
        ("1.5s", 1.5),
        ("0", 0.0),
        (" 3sec ", 3.0),
    ],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "bad", ["", "  ", "s", "5", "soon", "-1s", "1s and more", "1 fortnight", "1S", 5, 1.5, None, True]
)
def test_invalid_durations_are_rejected(bad: object) -> None:
    with pytest.raises(BadValueError) as raised:
        parse_duration(bad)
    assert raised.value.remedy is not None
    assert "500ms" in raised.value.remedy


@pytest.mark.parametrize("text", ["1h", "90s", "1m", "500ms", "25us", "7ns", "0s"])
def test_durations_are_formatted_as_they_are_parsed(text: str) -> None:
    assert format_duration(parse_duration(text)) == text


def test_durations_in_models_are_seconds_and_are_dumped_as_text() -> None:
    adapter = TypeAdapter(Duration)
    assert adapter.validate_python("1m 30s") == 90.0
    assert adapter.dump_python(90.0) == "90s"


@pytest.mark.parametrize(
    ("value", "columns"),
    [("id", ("id",)), ("a,b", ("a", "b")), (" a , b ", ("a", "b")), (["a", "b"], ("a", "b"))],
)
def test_primary_key_is_a_trimmed_list(value: object, columns: tuple[str, ...]) -> None:
    assert TypeAdapter(PrimaryKey).validate_python(value) == columns


@pytest.mark.parametrize("bad", ["", ",", "a,,b", "a, a", 5, [1], {"a": 1}])
def test_an_invalid_primary_key_is_rejected(bad: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(PrimaryKey).validate_python(bad)


def test_star_selects_all_columns() -> None:
    adapter = TypeAdapter(Columns)
    assert adapter.validate_python("*") is None
    assert adapter.validate_python("a, b") == ("a", "b")
    assert adapter.dump_python(None) == "*"


def test_secret_is_never_dumped() -> None:
    adapter = TypeAdapter(Secret)
    secret = adapter.validate_python("hunter2")
    assert secret.get_secret_value() == "hunter2"
    assert "hunter2" not in repr(secret)
    assert adapter.dump_python(secret) == "[REDACTED]"
    assert adapter.dump_json(secret) == b'"[REDACTED]"'


@pytest.mark.parametrize("url", ["http://localhost:8087/x", "https://example.com", "http://[::1]:80/"])
def test_http_addresses_are_accepted(url: str) -> None:
    assert TypeAdapter(HttpUrl).validate_python(url) == url


@pytest.mark.parametrize("bad", ["ftp://x/y", "example.com", "http://", "http://x:port/", "file:///etc/passwd", ""])
def test_other_addresses_are_rejected(bad: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(HttpUrl).validate_python(bad)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/in", "https://example.com/in"),
        ("https://me:pw@example.com:8443/in", "https://[REDACTED]@example.com:8443/in"),
        ("https://example.com/in?key=abc", "https://example.com/in?[REDACTED]"),
    ],
)
def test_credentials_in_an_address_are_masked(url: str, shown: str) -> None:
    assert redact_url(url) == shown
