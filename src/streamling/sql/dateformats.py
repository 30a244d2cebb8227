"""Converts date formats: DataFusion's ``%Y-%m-%d`` to Spark's ``yyyy-MM-dd``."""

from __future__ import annotations

_CODES = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "e": "d",
    "j": "DDD",
    "H": "HH",
    "I": "hh",
    "M": "mm",
    "S": "ss",
    "p": "a",
    "b": "MMM",
    "h": "MMM",
    "B": "MMMM",
    "a": "EEE",
    "A": "EEEE",
    "F": "yyyy-MM-dd",
    "T": "HH:mm:ss",
    "R": "HH:mm",
    "D": "MM/dd/yy",
    "-d": "d",
    "-m": "M",
    "-H": "H",
    "-I": "h",
    "f": "SSSSSSSSS",
    "3f": "SSS",
    "6f": "SSSSSS",
    "9f": "SSSSSSSSS",
    ".3f": ".SSS",
    ".6f": ".SSSSSS",
    ".9f": ".SSSSSSSSS",
    "z": "xx",
    ":z": "xxx",
    "%": "%",
}


def java_format(text: str) -> str | None:
    """``text`` for Spark; unchanged if it has no ``%``, None if a code has no equivalent."""
    if "%" not in text:
        return text
    start, *parts = text.split("%")
    spelled = _quoted(start)
    while parts:
        part = parts.pop(0)
        if not part and parts:  # %% is a percent sign
            spelled += "%" + _quoted(parts.pop(0))
            continue
        code = next((part[:length] for length in (3, 2, 1) if part[:length] in _CODES), None)
        if code is None:
            return None
        spelled += _CODES[code] + _quoted(part[len(code) :])
    return spelled


def _quoted(literal: str) -> str:
    """Letters and brackets are literal only inside quotes."""
    plain = not any(char.isalpha() or char in "'[]{}#" for char in literal)
    return literal if plain else "'" + literal.replace("'", "''") + "'"
