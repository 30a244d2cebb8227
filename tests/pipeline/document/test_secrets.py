"""Which texts of configuration, environment and pipeline file are secrets."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from streamling.pipeline.document.secrets import secrets_in, secrets_in_environment


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ({"api_key": "k1", "headers": {"X": "h1"}}, {"k1", "h1"}),
        ({"nested": [{"password": SecretStr("p1")}]}, {"p1"}),
        ({"password": 1234567}, {"1234567"}),
        ({"host": "postgresql://me:p%40ss@h/d"}, {"p%40ss", "p@ss"}),
        ({"host": "postgresql://me:p@ss/w@h/d"}, {"p@ss/w"}),
        ({"host": "host=h password='a b' user=me"}, {"a b"}),
        ({"url": "https://ghp_token@h/x?sig=abc&page=2"}, {"ghp_token", "abc"}),
        ({"url": "https://h/x?t=q8Zk29fjR01x"}, {"q8Zk29fjR01x"}),
        ({"headers": {"Authorization": "Basic bWU6aHVudGVyMg=="}}, {"Basic bWU6aHVudGVyMg==", "hunter2"}),
    ],
)
def test_secrets_are_found(value: object, found: set[str]) -> None:
    assert set(secrets_in(value)) == found


@pytest.mark.parametrize(
    "value",
    [
        {"schema": {"token": "string", "password": "utf8"}},
        {"secret_name": "prices", "primary_key": "token", "from": "tokens"},
        {"sources": {"tokens": {"type": "file", "path": "tokens"}}},
        {"sql": "SELECT token, password = other AS same FROM users"},
        {"url": "http://localhost:8080/in?limit=10", "brokers": "localhost:9092"},
        {"http_secret_header": {"my_api_key": "x-api-key"}},
    ],
)
def test_ordinary_values_are_not_secrets(value: object) -> None:
    assert set(secrets_in(value)) == set()


def test_variables_by_their_names() -> None:
    environ = {"GITHUB_TOKEN": "t1", "PGPASSWORD": "p1", "PWD": "/home/me", "SSH_AUTH_SOCK": "/run/x", "AUTHOR": "me"}
    assert set(secrets_in_environment(environ)) == {"t1", "p1"}


def test_what_a_token_may_do_is_not_secret() -> None:
    name = "STREAMLING__SERVE__TOKENS__DEPLOY"
    environ = {f"{name}__VALUE": "v1", f"{name}__ROLE": "operator", f"{name}__NAMESPACES": "shop,team"}
    assert set(secrets_in_environment(environ)) == {"v1"}
