"""`network.deny_private`: which addresses the clients of this process connect to."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from streamling.errors import StreamlingError
from streamling.network.addresses import PRIVATE_NETWORKS, is_private
from streamling.network.hosts import matches_any
from streamling.pipeline.config.core import NetworkSettings


@dataclass(frozen=True)
class NetworkPolicy:
    """Clients connect to the addresses that were checked: a name that resolves to something else a moment later changes
    nothing. Sent to executors with the clients that run there."""

    deny_private: bool = False
    #: hosts, addresses and networks that may be private
    allow: tuple[str, ...] = ()
    #: hosts that get credentials of this process when a pipeline chooses the address; None: all
    credential_hosts: tuple[str, ...] | None = None

    @classmethod
    def of(cls, settings: NetworkSettings) -> Self:
        return cls(settings.deny_private, settings.allow, settings.credential_hosts)

    def check(self, host: str, addresses: Iterable[str]) -> None:
        """Raise if one of the ``addresses`` that ``host`` resolves to is denied."""
        if not self.deny_private or matches_any(host, self.allow):
            return
        for address in addresses:
            if is_private(address) and not matches_any(address, self.allow):
                raise private_address_error(host, address)

    def may_receive_credentials(self, host: str) -> bool:
        """Return whether what this process knows may be sent to an address that a pipeline has chosen."""
        return self.credential_hosts is None or matches_any(host, self.credential_hosts)

    def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of ``host``, checked. Raises `socket.gaierror` if it has none."""
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError:  # no valid host name
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        self.check(host, addresses)
        return addresses

    def java_properties(self) -> dict[str, str]:
        """Return the system properties by which Kafka's clients in the JVM apply the policy."""
        if not self.deny_private:
            return {}
        return {
            "streamling.network.denied": ",".join(PRIVATE_NETWORKS),
            "streamling.network.allowed": ",".join(self.allow),
        }

    def create_connection(self, address: tuple[str, int], *options: Any, **more: Any) -> socket.socket:
        """Connect as `socket.create_connection` does, to a checked address."""
        if not self.deny_private:
            return socket.create_connection(address, *options, **more)
        host, port = address
        *others, last = self.addresses(host, port)
        for other in others:
            try:
                return socket.create_connection((other, port), *options, **more)
            except OSError:
                continue
        return socket.create_connection((last, port), *options, **more)


#: for clients whose address only the user of the command chooses
ANY_ADDRESS = NetworkPolicy()


def private_address_error(host: str, address: str) -> StreamlingError:
    """Return the error that ``host`` may not be connected to."""
    verb = "is" if host.strip("[]") == address else f"resolves to {address}, which is"
    return StreamlingError.user(
        f"'{host}' {verb} a private address, and network.deny_private is on",
        remedy="use a public address, or add the host to network.allow in the configuration of the server",
    )
