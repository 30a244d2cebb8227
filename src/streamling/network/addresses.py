"""Which addresses are not public."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

#: networks without public addresses, by IANA's registries; Kafka's clients in the JVM get the same list
PRIVATE_NETWORKS: Final = (
    *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24"),
    *("192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
    *("::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16"),
    *("fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
)
_NETWORKS: Final = tuple(map(ip_network, PRIVATE_NETWORKS))
#: IPv6 addresses that embed an IPv4 address in their last four bytes
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_private(address: str) -> bool:
    """Return whether an address is not public: private, loopback, link-local, cloud metadata, multicast.

    >>> is_private("169.254.169.254"), is_private("::ffff:10.0.0.1"), is_private("1.1.1.1")
    (True, True, False)
    """
    found = ip_address(address.partition("%")[0])
    inner = _embedded(found) if isinstance(found, IPv6Address) else None
    return any(each in network for each in (found, inner) if each is not None for network in _NETWORKS)


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
    return address.ipv4_mapped or address.sixtofour
