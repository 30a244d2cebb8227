"""Hashes that the JVM does not have."""

from __future__ import annotations

import hashlib

import pyarrow as pa

from streamling.sql.kernels.encodings import unhex
from streamling.sql.kernels.rows import mapped


def xxh3_128(texts: pa.Array) -> pa.Array:
    from xxhash import xxh3_128_hexdigest

    return mapped(lambda text: xxh3_128_hexdigest(text.encode()), pa.string(), texts)


def keccak256(texts: pa.Array) -> pa.Array:
    from Crypto.Hash import keccak

    def digest(text: str) -> str:
        data = unhex(text) if text.startswith("0x") else None
        return "0x" + keccak.new(digest_bits=256, data=text.encode() if data is None else data).hexdigest()

    return mapped(digest, pa.string(), texts)


def blake2s(values: pa.Array) -> pa.Array:
    return mapped(lambda value: hashlib.blake2s(value).digest(), pa.binary(), values)


def blake2b(values: pa.Array) -> pa.Array:
    return mapped(lambda value: hashlib.blake2b(value).digest(), pa.binary(), values)
