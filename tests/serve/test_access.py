"""Tokens, roles, namespaces, and the rate of requests."""

from __future__ import annotations

import hashlib

import pytest
from pydantic import SecretStr

from streamling.errors import StreamlingError
from streamling.serve.access import LOCAL, Access, Principal, RateLimit
from streamling.serve.config import ServeSettings, TokenSettings

SECRET = "a-token-of-some-length"


def access(**tokens: TokenSettings) -> Access:
    return Access.of(ServeSettings(tokens=tokens))


def test_without_tokens_everybody_on_this_machine_is_admin():
    assert access().principal(None) == LOCAL


@pytest.mark.parametrize("listen", ["0.0.0.0:4195", "10.0.0.1:80", "[::]:4195", "example.com:80"])
def test_an_address_that_others_reach_requires_a_token(listen):
    with pytest.raises(StreamlingError, match=r"serve\.tokens is empty"):
        Access.of(ServeSettings(listen=listen))
    Access.of(ServeSettings(listen=listen, tokens={"ci": TokenSettings(value=SecretStr(SECRET))}))


@pytest.mark.parametrize("kind", ["value", "file", "sha256"])
def test_a_token_is_given_in_one_of_three_ways(kind, tmp_path):
    (tmp_path / "token").write_text(f"{SECRET}\n")
    tokens = {
        "value": TokenSettings(value=SecretStr(SECRET), role="operator"),
        "file": TokenSettings(file=tmp_path / "token", role="operator"),
        "sha256": TokenSettings(sha256=hashlib.sha256(SECRET.encode()).hexdigest(), role="operator"),
    }
    found = access(ci=tokens[kind])
    assert found.principal(f"Bearer {SECRET}") == Principal("ci", "operator")
    assert SECRET not in repr(found)


@pytest.mark.parametrize("header", [None, "", SECRET, f"Basic {SECRET}", "Bearer wrong", "Bearer "])
def test_a_wrong_or_missing_token_is_nobody(header):
    assert access(ci=TokenSettings(value=SecretStr(SECRET))).principal(header) is None


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (TokenSettings(), "has 0 of the settings"),
        (TokenSettings(value=SecretStr(SECRET), sha256="0" * 64), "has 2 of the settings"),
        (TokenSettings(value=SecretStr("short")), "has 5 characters"),
    ],
)
def test_an_incomplete_token_prevents_the_start(token, message):
    with pytest.raises(StreamlingError, match=message):
        access(ci=token)


def test_roles_include_those_below():
    assert [LOCAL.may(role) for role in ("viewer", "operator", "admin")] == [True, True, True]
    assert [Principal("x", "operator").may(role) for role in ("viewer", "operator", "admin")] == [True, True, False]


def test_a_principal_sees_its_namespaces():
    assert Principal("x", "viewer", ("a",)).sees("a")
    assert not Principal("x", "viewer", ("a",)).sees("b")
    assert Principal("x", "viewer").sees("b")


def test_requests_are_limited_per_name():
    now = 0.0
    limit = RateLimit(ServeSettings(requests_per_minute=60), lambda: now)
    assert [limit.allows("a") for _ in range(11)] == [True] * 10 + [False]
    assert limit.allows("b")
    now = 1.0
    assert [limit.allows("a") for _ in range(2)] == [True, False]
