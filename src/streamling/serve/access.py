"""Who may do what: tokens, roles and namespaces."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from streamling.errors import StreamlingError
from streamling.redaction import add_secrets
from streamling.serve.config import Role, ServeSettings, TokenSettings

_ROLES: tuple[Role, ...] = ("viewer", "operator", "admin")


@dataclass(frozen=True)
class Principal:
    """Who sends a request."""

    name: str
    role: Role
    namespaces: tuple[str, ...] = ("*",)

    def may(self, role: Role) -> bool:
        """Return whether this one has at least ``role``."""
        return _ROLES.index(self.role) >= _ROLES.index(role)

    @property
    def sees_all(self) -> bool:
        """Whether no namespace is hidden from this one."""
        return "*" in self.namespaces

    def sees(self, namespace: str) -> bool:
        return self.sees_all or namespace in self.namespaces


#: whoever reaches the loopback interface of a server without tokens
LOCAL = Principal("local", "admin")


@dataclass(frozen=True)
class Access:
    """The tokens of a server, as their digests."""

    digests: Mapping[bytes, Principal]

    @classmethod
    def of(cls, settings: ServeSettings) -> Access:
        """Read the tokens; raises if one is incomplete, or if there are none and other machines can reach the API."""
        host = settings.listen.rpartition(":")[0]
        if not settings.tokens and not is_loopback(host):
            raise StreamlingError.user(
                f"serve.listen is {settings.listen}, which other machines can reach, but serve.tokens is empty",
                remedy="add a token, or listen on 127.0.0.1",
            )
        return cls(
            {
                _digest(name, token): Principal(name, token.role, token.namespaces)
                for name, token in settings.tokens.items()
            }
        )

    @property
    def namespaces(self) -> frozenset[str]:
        """Return those that tokens are limited to."""
        return frozenset(name for principal in self.digests.values() for name in principal.namespaces)

    def principal(self, authorization: str | None) -> Principal | None:
        """Return who sends this header; None if the token is missing or wrong."""
        if not self.digests:
            return LOCAL
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        digest = hashlib.sha256(token.strip().encode()).digest()
        # all of them, always: the time does not depend on which one matches
        found = [who for known, who in self.digests.items() if hmac.compare_digest(known, digest)]
        return found[0] if found else None


def _digest(name: str, token: TokenSettings) -> bytes:
    given = [each for each in (token.value, token.file, token.sha256) if each is not None]
    if len(given) != 1:
        raise StreamlingError.user(
            f"serve.tokens.{name} has {len(given)} of the settings value, file and sha256, expected exactly one"
        )
    if token.sha256 is not None:
        return bytes.fromhex(token.sha256)
    text = token.value.get_secret_value() if token.value is not None else _read(name, token)
    if len(text) < 16:
        raise StreamlingError.user(
            f"the token serve.tokens.{name} has {len(text)} characters, expected at least 16",
            remedy="create one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'",
        )
    add_secrets([text])
    return hashlib.sha256(text.encode()).digest()


def _read(name: str, token: TokenSettings) -> str:
    assert token.file is not None
    try:
        return token.file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise StreamlingError.user(f"the file of serve.tokens.{name} cannot be read: {error}") from None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class RateLimit:
    """At most `serve.requests_per_minute` for each principal, spent evenly after a burst of a tenth of them."""

    def __init__(self, settings: ServeSettings, now: Callable[[], float] = time.monotonic) -> None:
        self._per_second = settings.requests_per_minute / 60
        self._burst = max(10.0, settings.requests_per_minute / 10)
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, name: str) -> bool:
        """Count a request of ``name``; False if there were too many. Called on one thread."""
        now = self._now()
        left, since = self._left.get(name, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._per_second)
        self._left[name] = (left - 1, now) if left >= 1 else (left, now)
        return left >= 1
