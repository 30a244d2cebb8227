"""Random secrets, in every encoding and position: none of them is ever shown."""

from __future__ import annotations

import json
import random
import string
import time
from pathlib import Path

import pytest

from streamling.redaction import MASK, Redactor
from tests.fuzz.budget import SECONDS, rounds
from tests.fuzz.encodings import ENCODINGS, PLACES, WITH_USER

CORPUS: list[str] = json.loads((Path(__file__).parents[1] / "corpus" / "runtime" / "secrets.json").read_text())
ALPHABETS = (
    string.ascii_letters + string.digits,
    string.ascii_letters + string.digits + string.punctuation,
    string.printable,
    "aä€😀'\"\\/%&<>+ =:@1",
    string.hexdigits,
)


def covered(secret: str, shown: str, among: list[str]) -> bool:
    """Whether ``shown`` is masked in each of ``among``, with the text around it intact."""
    redactor = Redactor()
    redactor.add([secret])
    for place in among:
        text = redactor.redact(place.format(shown))
        if shown in text or MASK not in text:
            return False
    return True


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_secret_is_masked_in_every_encoding(encoding: str) -> None:
    assert [s for s in CORPUS if not covered(s, ENCODINGS[encoding](s), list(PLACES))] == []


@pytest.mark.parametrize("encoding", WITH_USER)
def test_a_password_is_masked_together_with_its_user(encoding: str) -> None:
    redactor = Redactor()
    redactor.add(CORPUS)
    for secret in (secret for secret in CORPUS if len(secret) >= 8):
        assert MASK in redactor.redact(WITH_USER[encoding](secret)), secret


def test_random_secrets_are_masked_in_every_encoding() -> None:
    for chance in rounds(SECONDS * 0.3):
        for secret in _secrets(chance, 20):
            for name, encode in ENCODINGS.items():
                places = [chance.choice(PLACES)]
                assert covered(secret, encode(secret), places), (secret, name, places)


def test_many_secrets_do_not_interfere() -> None:
    for chance in rounds(SECONDS * 0.2):
        secrets = list(_secrets(chance, 30))
        redactor = Redactor()
        redactor.add(secrets)
        text = " | ".join(encode(secret) for secret in secrets for encode in ENCODINGS.values())
        shown = redactor.redact(text)
        assert [secret for secret in secrets if secret in shown] == []


def test_ordinary_text_is_unchanged() -> None:
    redactor = Redactor()
    redactor.add(["abc", "test", "1234", "postgres", "PASSWORD", "", "  ", "s3cret!"])
    for text in (
        "the latest test12 abcabc 12345 rows to sink 'out' (postgres)",
        "connection to postgresql://db.internal:5432/shop refused; set postgres_sink.pass",
        "http://localhost:8080/in?limit=10&order=asc",
        "Basic authentication is required, Bearer token expected",
    ):
        assert redactor.redact(text) == text
    assert redactor.redact("port 1234, a test!") == f"port {MASK}, a {MASK}!"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("cannot reach postgresql://me:hunter2@db/shop", "hunter2"),
        ("cannot reach postgresql://me:p@ss/w0rd@db/shop", "p@ss/w0rd"),
        ("see https://ghp_abcdef@github.com/x", "ghp_abcdef"),
        ("GET https://h/in?limit=1&access_token=abc#x", "abc"),
        ("GET /in?api-key=abc HTTP/1.1", "abc"),
        ("connection failed: host=db password=abc user=me", "abc"),
        ("connection failed: password='a b c' user=me", "a b c"),
        ("Authorization: Bearer abc.def1", "abc.def1"),
        ("Proxy-Authorization: Basic bWU6aHVudGVyMg==", "bWU6aHVudGVyMg"),
    ],
)
def test_unregistered_credentials_are_recognised_by_their_form(text: str, secret: str) -> None:
    shown = Redactor().redact(text)
    assert secret not in shown.partition(":")[2] if secret == "abc" else secret not in shown
    assert MASK in shown


def test_hostile_text_is_processed_in_linear_time() -> None:
    """A peer's text cannot make the search for secrets slow: twice the text takes about twice the time."""
    redactor = Redactor()
    redactor.add(CORPUS)
    for piece in ("\\", "://a:", "%25", "?token", "&amp;", "Bearer ", "password=", "secret", "a", "\\\\u00", "'"):
        small, large = (_seconds(redactor, piece * (size // len(piece))) for size in (20_000, 80_000))
        assert large < 40 * max(small, 0.005), (piece, small, large)


def _seconds(redactor: Redactor, text: str) -> float:
    began = time.process_time()
    redactor.redact(text)
    return time.process_time() - began


def _secrets(chance: random.Random, count: int) -> list[str]:
    made = []
    while len(made) < count:
        secret = "".join(chance.choices(chance.choice(ALPHABETS), k=chance.randint(6, 40)))
        if len(secret.strip()) >= 6 and not secret.strip().isalpha() and not secret.strip().isdigit():
            made.append(secret)
    return made
