"""Which addresses are public."""

from __future__ import annotations

import random
from ipaddress import IPv4Address, IPv6Address

import pytest

from streamling.network.addresses import is_private
from streamling.network.hosts import matches_any


@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "127.0.0.1",
        "0.0.0.0",
        "169.254.169.254",
        "100.100.100.200",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:7f00:1::",
    ],
)
def test_addresses_that_are_not_public(address):
    assert is_private(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101"])
def test_addresses_that_are_public(address):
    assert not is_private(address)


def test_every_address_that_python_calls_private_is_private():
    """Python's list has no form that the clients in the JVM could use."""
    made = random.Random(7)
    for address in (IPv4Address(made.getrandbits(32)) for _ in range(20_000)):
        assert is_private(str(address)) or (address.is_global and not address.is_multicast), address
    for first in (*range(0, 0x10000, 7), 0x0064, 0x0100, 0x2001, 0x2002, 0x3FFF, 0x5F00):
        address = IPv6Address((first << 112) | made.getrandbits(112))
        assert is_private(str(address)) or (address.is_global and not address.is_multicast), address


@pytest.mark.parametrize(
    ("host", "patterns", "expected"),
    [
        ("db.internal", ["db.internal"], True),
        ("DB.Internal.", ["db.internal"], True),
        ("a.db.internal", ["db.internal"], False),
        ("a.db.internal", ["*.internal"], True),
        ("internal.evil.com", ["*.internal"], False),
        ("dbxinternal", ["db.internal"], False),
        ("10.1.2.3", ["10.0.0.0/8"], True),
        ("11.1.2.3", ["10.0.0.0/8"], False),
        ("10.0.0.1", ["*.1"], False),
        ("10.0.0.1", ["10.*"], False),
        ("10.evil.com", ["10.0.0.0/8"], False),
        ("[::1]", ["::1"], True),
        ("anything", ["*"], True),
        ("127.0.0.1", ["*"], True),
        ("anything", [], False),
        ("", ["db.internal"], False),
    ],
)
def test_patterns_of_hosts(host, patterns, expected):
    assert matches_any(host, patterns) is expected
