"""Hashes and encodings."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, UnsupportedSql, fill, literal_text
from streamling.sql.library.declaration import Function, Kernel

_TEXT, _BYTES = pa.string(), pa.binary()
_SHA = ("sha224", "sha256", "sha384", "sha512")
_DIGESTS = {
    "md5": "unhex(md5({0}))",
    **{name: f"unhex(sha2({{0}}, {name[3:]}))" for name in _SHA},
}
_BLAKE = {name: Kernel(f"hashes.{name}", "binary") for name in ("blake2s", "blake2b")}
_ENCODED = {
    "hex": "lower(hex({0}))",
    "base64": "rtrim('=', base64(CAST({0} AS BINARY)))",
    "base64pad": "base64(CAST({0} AS BINARY))",
}
_DECODED = {"hex": "unhex({0})", "base64": "unbase64({0})", "base64pad": "unbase64({0})"}


def _by_word(spellings: dict[str, str], what: str, type_: pa.DataType) -> Callable[[Args], exp.Expr]:
    def rewrite(args: Args) -> exp.Expr:
        word = (literal_text(args[1]) or "").lower()
        if word in spellings:
            return fill(spellings[word], args[:1], type_)
        raise UnsupportedSql(f"the {what} {args[1].sql()} is unknown", f"use one of {', '.join(sorted(spellings))}")

    return rewrite


def _sha(name: str) -> Function:
    spark = f"unhex(sha2({{0}}, {name[3:]}))"
    example = f"octet_length({name}('a')) = {int(name[3:]) // 8}"
    return Function(name, "text", spark, f"SHA-{name[3:]} hash as bytes.", example, _BYTES)


def _digest(args: Args) -> exp.Expr:
    word = (literal_text(args[1]) or "").lower()
    if word in _BLAKE:
        return fill(f"{_BLAKE[word].spark_name}(CAST({{0}} AS BINARY))", args[:1], _BYTES)
    return _by_word(_DIGESTS, "hash", _BYTES)(args)


FUNCTIONS = (
    Function(
        "decode",
        "text name",
        _by_word(_DECODED, "encoding", _BYTES),
        "Decodes 'hex' or 'base64' text to bytes.",
        "decode('616263', 'hex') = CAST('abc' AS BINARY)",
        _BYTES,
    ),
    Function(
        "digest",
        "text name",
        _digest,
        "Hash as bytes: md5, sha224, sha256, sha384, sha512, blake2s, blake2b.",
        "digest('a', 'sha256') = sha256('a')\noctet_length(digest('a', 'blake2s')) = 32",
        _BYTES,
        uses=tuple(_BLAKE.values()),
    ),
    Function(
        "encode",
        "text name",
        _by_word(_ENCODED, "encoding", _TEXT),
        "Encodes bytes as 'hex' or 'base64' text.",
        "encode('abc', 'hex') = '616263'",
        _TEXT,
    ),
    Function(
        "md5",
        "text",
        "md5({0})",
        "MD5 hash as hexadecimal text.",
        "md5('a') = '0cc175b9c0f1b6a831c399e269772661'",
        _TEXT,
    ),
    *(_sha(name) for name in _SHA),
    Function(
        "_gs_xxhash",
        "text",
        Kernel("hashes.xxh3_128", "string"),
        "XXH3-128 hash as 32 hexadecimal digits.",
        "_gs_xxhash('hello') = 'b5e9c1ad071b3e7fc779cfaa5e523818'",
        _TEXT,
    ),
    Function(
        "_gs_keccak256",
        "text",
        Kernel("hashes.keccak256", "string"),
        "Keccak-256 hash with the prefix `0x`; text that starts with `0x` is decoded first.",
        "_gs_keccak256('') = '0xc5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470'",
        _TEXT,
    ),
    Function(
        "_gs_from_base58",
        "text",
        Kernel("encodings.from_base58", "binary"),
        "Decodes Base58 text to bytes; empty for NULL and invalid text.",
        "_gs_byte_to_hex(_gs_from_base58('2NEpo7TZRRrLZSi2U')) = '48656c6c6f20576f726c6421'",
        _BYTES,
    ),
    Function(
        "_gs_to_base58",
        "binary",
        Kernel("encodings.to_base58", "string"),
        "Encodes bytes as Base58 text.",
        "_gs_to_base58(CAST('Hello World!' AS BINARY)) = '2NEpo7TZRRrLZSi2U'",
        _TEXT,
        "to_base58",
    ),
    Function(
        "_gs_hex_to_byte",
        "text",
        "coalesce(if(rlike({0}, '^(0x)?([0-9a-fA-F]{{2}})*$'), unhex(regexp_replace({0}, '^0x', '')), NULL), X'')",
        "Decodes hexadecimal text, with or without `0x`, to bytes; empty for NULL and invalid text.",
        "_gs_hex_to_byte('0x6162') = CAST('ab' AS BINARY)",
        _BYTES,
    ),
    Function(
        "_gs_byte_to_hex",
        "binary",
        "lower(hex({0}))",
        "Encodes bytes as hexadecimal text.",
        "_gs_byte_to_hex(CAST('ab' AS BINARY)) = '6162'",
        _TEXT,
    ),
    Function(
        "_gs_conv_base",
        "text text text",
        Kernel("encodings.conv_base", "string"),
        "Converts a number of any size from one base to another, 2 to 36; NULL if it is invalid.",
        "_gs_conv_base('FF', '16', '10') = '255'\n_gs_conv_base('255', 10, 16) = 'ff'",
        _TEXT,
    ),
    Function(
        "reverse_bytes32",
        "binary",
        "unhex(array_join(reverse(split(hex({0}), '(?<=\\\\G..)')), ''))",
        "The bytes in reverse order.",
        "_gs_byte_to_hex(reverse_bytes32(_gs_hex_to_byte('010203'))) = '030201'",
        _BYTES,
    ),
    Function(
        "unhex",
        "text",
        "unhex({0})",
        "Decodes hexadecimal text to bytes; NULL if it is invalid.",
        "unhex('6162') = CAST('ab' AS BINARY)",
        _BYTES,
    ),
)
