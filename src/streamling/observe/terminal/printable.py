"""Makes text from outside safe for a terminal or log: control characters become visible escapes.

ESC starts terminal commands, a line break forges a log line, and a bidirectional override shows text in a different
order.
"""

from __future__ import annotations

import re

_CONTROLS = "\x00-\x08\x0b-\x1f\x7f-\x9f"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
_UNSAFE = re.compile(f"[{_CONTROLS}{_BIDI}{_INVISIBLE}]")
_UNSAFE_ON_A_LINE = re.compile(f"[\t\n{_CONTROLS}{_BIDI}{_INVISIBLE}]")
#: what we send to a terminal ourselves: colours, and the control codes of a progress bar
_OUR_CODES = re.compile(f"(\r?\x1b\\[[0-9;]*[mK])|[{_CONTROLS}{_BIDI}{_INVISIBLE}]")
_NAMED = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def printable(text: str) -> str:
    """Return ``text`` on one line: line breaks and all other control characters are escaped.

    >>> printable("done\\n12:00 ERROR \\x1b[2J")
    'done\\\\n12:00 ERROR \\\\x1b[2J'
    """
    return _UNSAFE_ON_A_LINE.sub(_escaped, text)


def printable_lines(text: str) -> str:
    """Return ``text`` with its line breaks and tabs; all other control characters are escaped."""
    return _UNSAFE.sub(_escaped, text)


def printable_codes(text: str) -> str:
    """Return ``text`` with its line breaks and colours; all other control codes are escaped."""
    return _OUR_CODES.sub(lambda match: match[1] or _escaped(match), text)


def printable_json(text: str) -> str:
    """Return JSON ``text`` with the control characters that JSON allows inside strings written as ``\\\\uXXXX``."""
    return _UNSAFE.sub(lambda match: "".join(f"\\u{unit:04x}" for unit in _utf16(match[0])), text)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if code > 0xFFFF:
        return f"\\U{code:08x}"
    return _NAMED.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _utf16(char: str) -> list[int]:
    raw = char.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(raw[i : i + 2]) for i in range(0, len(raw), 2)]
