"""Patterns of hosts in settings: names in which ``*`` matches any text, addresses, and networks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network

from streamling.network.addresses import is_address


def matches_any(host: str, patterns: Iterable[str]) -> bool:
    """Return whether ``host``, a name or an address, matches one of ``patterns``.

    >>> matches_any("db.internal", ["*.internal"]), matches_any("10.1.2.3", ["10.0.0.0/8"])
    (True, True)
    """
    name = host.strip("[]").rstrip(".").lower()
    matches = _address_matches if is_address(name) else _name_matches
    return any(matches(name, pattern.strip("[]").lower()) for pattern in patterns)


def _name_matches(name: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _address_matches(address: str, pattern: str) -> bool:
    """Return whether a pattern matches an address. One with ``*`` matches names only: otherwise ``*.1`` would match
    unexpected addresses."""
    try:
        return ip_address(address.partition("%")[0]) in ip_network(pattern, strict=False)
    except ValueError:
        return pattern == "*"
