"""Base58, hexadecimal text, and numbers in other bases."""

from __future__ import annotations

import pyarrow as pa

from streamling.sql.kernels.rows import mapped

_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_PLACES = {char: place for place, char in enumerate(_BASE58)}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def unhex(text: str) -> bytes | None:
    """Return the bytes of hexadecimal text after ``0x``; None if it is invalid."""
    try:
        return bytes.fromhex(text[2:]) if " " not in text else None
    except ValueError:
        return None


def from_base58(texts: pa.Array) -> pa.Array:
    return pa.array([b"" if text is None else _decoded(text) for text in texts.to_pylist()], pa.binary())


def to_base58(values: pa.Array) -> pa.Array:
    return mapped(_encoded, pa.string(), values)


def conv_base(numbers: pa.Array, sources: pa.Array, targets: pa.Array) -> pa.Array:
    return mapped(_converted, pa.string(), numbers.cast(pa.string()), sources, targets)


def _decoded(text: str) -> bytes:
    number = 0
    for char in text:
        place = _PLACES.get(char)
        if place is None:
            return b""
        number = number * 58 + place
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def _encoded(value: bytes) -> str:
    number, digits = int.from_bytes(value, "big"), ""
    while number:
        number, place = divmod(number, 58)
        digits = _BASE58[place] + digits
    return "1" * (len(value) - len(value.lstrip(b"\0"))) + digits


def _converted(number: str, source: str, target: str) -> str | None:
    try:
        bases = int(source), int(target)
    except ValueError:
        return None
    if not all(2 <= base <= 36 for base in bases) or not _is_plain(number, bases[0]):
        return None
    return _spelled(int(number, bases[0]), bases[1])


def _is_plain(number: str, base: int) -> bool:
    """Return whether a text is a sign and digits: Python's int() also accepts spaces, 0x, underscores and digits of
    other scripts."""
    digits = number[1:] if number[:1] in ("+", "-") else number
    return bool(digits) and all(char in _DIGITS[:base] for char in digits.lower())


def _spelled(value: int, base: int) -> str:
    rest, digits = abs(value), ""
    while rest:
        rest, place = divmod(rest, base)
        digits = _DIGITS[place] + digits
    return ("-" if value < 0 else "") + (digits or "0")
