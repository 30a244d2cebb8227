"""Decides which addresses `network.deny_private` rejects."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Final

#: IPv6 addresses that embed an IPv4 address in their last four bytes
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_private(address: str) -> bool:
    """Return whether an address is not public: private, loopback, link-local, cloud metadata, multicast.

    >>> is_private("169.254.169.254"), is_private("::ffff:10.0.0.1"), is_private("1.1.1.1")
    (True, True, False)
    """
    found = ip_address(address.partition("%")[0])
    inner = _embedded(found) if isinstance(found, IPv6Address) else None
    if inner is not None and is_private(str(inner)):
        return True
    return not found.is_global or found.is_multicast


def is_address(host: str) -> bool:
    """Return whether ``host`` is an IP address, which needs no resolution."""
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that a gateway or the kernel would connect to."""
    if address in _NAT64:
        return IPv4Address(address.packed[-4:])
    return address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
