"""Whether brokers are reachable and allowed. The Java client needs 15 s to find out, and does not say why."""

from __future__ import annotations

import socket

from streamling.errors import StreamlingError, Unreachable
from streamling.network.hosts import matches_any
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.config import AppConfig
from streamling.spark.master import is_local

_CONNECT_SECONDS = 3.0


def check_reachable(brokers: str, section: str, network: NetworkPolicy) -> None:
    """Raise `Unreachable` if none of the bootstrap servers accepts a connection, or another error if ``network`` denies
    one that was tried; ``section`` is the section of the configuration that names them."""
    reasons = []
    for broker in filter(None, (part.strip() for part in brokers.split(","))):
        host, colon, port = broker.rpartition(":")
        if not colon or not port.isdecimal():
            return  # the client reports malformed addresses itself
        reason = _failure(host.strip("[]"), int(port), network)
        if reason is None:
            return
        reasons.append(f"{broker}: {reason}")
    if reasons:
        raise Unreachable(
            f"cannot connect to the Kafka brokers at {'; '.join(reasons)}",
            remedy=f"start the brokers, or correct {section}.brokers",
        )


def check_cluster_policy(brokers: str, section: str, config: AppConfig) -> None:
    """Raise if ``brokers`` could lead the executors of a cluster to a denied address. Their clients do not check the
    addresses that a broker names, so every broker has to be allowed by its name."""
    network = NetworkPolicy.of(config.network)
    if not network.deny_private or is_local(config.spark.master):
        return
    for broker in filter(None, (part.strip() for part in brokers.split(","))):
        host = broker.rpartition(":")[0]
        if not matches_any(host, network.allow):
            raise StreamlingError.user(
                f"{section}.brokers has '{broker}', which the executors of a cluster may not connect to while "
                "network.deny_private is on",
                remedy="add the host to network.allow in the configuration of the server",
            )


def _failure(host: str, port: int, network: NetworkPolicy) -> str | None:
    try:
        network.create_connection((host, port), timeout=_CONNECT_SECONDS).close()
    except socket.gaierror:
        return "the host name cannot be resolved"
    except TimeoutError:
        return f"no response within {_CONNECT_SECONDS:g} s"
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None
