"""Encrypts single values with AES-256-GCM. The name of a secret is authenticated with its value, so that values in the
file cannot be swapped."""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING

from streamling.errors import StreamlingError
from streamling.pipeline.secrets.keys import Key

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


def encrypt(key: Key, name: str, value: str) -> str:
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + _cipher(key).encrypt(nonce, value.encode(), name.encode())).decode()


def decrypt(key: Key, name: str, text: str) -> str | None:
    """Return the value; None if ``text`` was not encrypted with ``key`` for ``name``, or was changed since."""
    cipher = _cipher(key)
    from cryptography.exceptions import InvalidTag

    try:
        data = base64.b64decode(text, validate=True)
        return cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], name.encode()).decode()
    except (binascii.Error, ValueError, InvalidTag):
        return None


def _cipher(key: Key) -> AESGCM:
    try:
        # imported here: it takes 30 ms, and most pipelines reference no stored secret
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise StreamlingError.user(
            "the secret store needs the package cryptography, which is not installed",
            remedy="pip install 'streamling[secrets]'",
            cause=error,
        ) from None
    return AESGCM(key.data)
