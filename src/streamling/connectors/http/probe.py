"""ConnectionCheck check for an HTTP endpoint: TCP and TLS only, without a request."""

from __future__ import annotations

import socket
import ssl
from functools import partial
from typing import Final

from streamling.errors import StreamlingError, Unreachable
from streamling.network.http.request import InvalidUrlError, Origin, origin_of
from streamling.network.policy import NetworkPolicy
from streamling.pipeline.document.scalars import redact_url
from streamling.plugins.connections import ConnectionCheck

_CONNECT_SECONDS: Final = 5.0


def http_connection(url: str, network: NetworkPolicy) -> ConnectionCheck:
    """Return the check of the host of ``url``, for `Operator.connections`."""
    return ConnectionCheck("HTTP", redact_url(url), partial(_check, url, network))


def _check(url: str, network: NetworkPolicy) -> str | None:
    try:
        origin = origin_of(url)
    except InvalidUrlError:
        raise StreamlingError.user(f"{redact_url(url)} is not a valid HTTP URL", remedy="correct `url`") from None
    try:
        with network.create_connection((origin.host, origin.port), timeout=_CONNECT_SECONDS) as plain:
            return _tls_version(plain, origin) if origin.tls else None
    except socket.gaierror:
        raise _unreachable(origin, "the host name cannot be resolved") from None
    except ssl.SSLCertVerificationError as error:
        raise StreamlingError.user(
            f"{origin}: the server's certificate cannot be verified ({error.verify_message})",
            remedy="install a certificate from a known authority on the server, or set SSL_CERT_FILE to yours",
        ) from None
    except ssl.SSLError as error:
        raise StreamlingError.user(f"{origin}: TLS handshake failed ({error.reason})", remedy="correct `url`") from None
    except TimeoutError:
        raise _unreachable(origin, f"connection timed out after {_CONNECT_SECONDS:g} s") from None
    except OSError as error:
        raise _unreachable(origin, error.strerror or str(error)) from None


def _tls_version(plain: socket.socket, origin: Origin) -> str | None:
    with ssl.create_default_context().wrap_socket(plain, server_hostname=origin.host) as encrypted:
        return encrypted.version()


def _unreachable(origin: Origin, reason: str) -> Unreachable:
    return Unreachable(f"cannot connect to {origin}: {reason}", remedy="start the service, or correct `url`")
