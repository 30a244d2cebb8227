"""One canonical form for a text, whatever its encoding.

`canonical` undoes percent-encoding, the escapes of JSON, Python, XML and HTML, and any nesting of them. Encodings of
the same text have the same canonical form.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Repetitions are bounded: a peer controls the text, and unbounded ones would take quadratic time.
_ESCAPE = re.compile(
    r"\\{1,16}(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([abfnrtv0]))"
    r"|(\\{1,16})"
    r"|%(?:25){0,4}([0-9a-fA-F]{2})"
    r"|&(?:amp;){0,4}(?:\#([0-9]{1,8});|\#[xX]([0-9a-fA-F]{1,8});|([A-Za-z][A-Za-z0-9]{1,30};))"
)
_OCTAL, _LETTER, _BACKSLASHES, _DECIMAL, _NAME = 4, 5, 6, 8, 10
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_AMPERSAND = "&amp;"
#: escapes inside escapes inside escapes
_DEPTH = 4

#: Shorter pieces of base64 occur by chance.
_SHORTEST_PIECE = 5


@dataclass(frozen=True)
class Canonical:
    """A canonical text with the original positions of its characters."""

    text: str
    #: for each character, start and end of its original; None if nothing was escaped
    spans: list[tuple[int, int]] | None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position of ``text[start:end]`` in the original."""
        if self.spans is None:
            return start, end
        return self.spans[start][0], self.spans[end - 1][1]


def canonical(text: str) -> Canonical:
    """Return ``text`` without escapes; a plus sign, which is a space in forms, becomes a space."""
    spans: list[tuple[int, int]] | None = None
    for _ in range(_DEPTH):
        decoded, moved = _decoded(text, spans)
        if moved is None:
            break
        text, spans = decoded, moved
    return Canonical(text.replace("+", " "), spans)


def _decoded(text: str, spans: list[tuple[int, int]] | None) -> tuple[str, list[tuple[int, int]] | None]:
    pieces: list[str] = []
    moved: list[tuple[int, int]] = []
    done = 0
    for match in _ESCAPE.finditer(text):
        start, end = match.span()
        meant = _meaning(match)
        if meant is None and match[0].startswith(_AMPERSAND):  # what follows only looks like a named character
            meant, end = "&", start + len(_AMPERSAND)
        if meant is None:
            continue
        pieces += (text[done:start], meant)
        moved += spans[done:start] if spans is not None else [(at, at + 1) for at in range(done, start)]
        whole = (start, end) if spans is None else (spans[start][0], spans[end - 1][1])
        moved += [whole] * len(meant)
        done = end
    if not pieces:
        return text, None
    pieces.append(text[done:])
    moved += spans[done:] if spans is not None else [(at, at + 1) for at in range(done, len(text))]
    return "".join(pieces), moved


def _meaning(match: re.Match[str]) -> str | None:
    """Return the character of an escape; None if it is invalid. Bytes above 127 become the character with that number,
    so UTF-8 text comes out as Latin-1."""
    kind = match.lastindex
    assert kind is not None
    found = match[kind]
    if kind == _BACKSLASHES:
        return ""
    if kind == _LETTER:
        return _LETTERS[found]
    if kind == _NAME:
        meant = html.unescape(f"&{found}")
        return None if meant.startswith("&") and len(meant) > 1 else meant
    code = int(found, {_OCTAL: 8, _DECIMAL: 10}.get(kind, 16))
    return chr(code) if code < 0x110000 else None


def canonical_forms(text: str) -> Iterator[str]:
    """Yield the canonical forms to search for when ``text`` must be hidden."""
    raw = text.encode("utf-8", "surrogatepass")
    yield text
    yield raw.decode("latin-1")
    if len(units := text.encode("utf-16-le", "surrogatepass")) > 2 * len(text):  # \ud83d\ude00
        yield "".join(chr(int.from_bytes(units[at : at + 2], "little")) for at in range(0, len(units), 2))
    yield from _base64_pieces(raw)
    yield from hex_forms(text)


def hex_forms(text: str) -> tuple[str, str]:
    """Return ``text`` in hexadecimal digits, lower and upper case. Postgres writes them after one ``\\x``, which the
    canonical form takes for the escape of a single character."""
    digits = text.encode("utf-8", "surrogatepass").hex()
    return digits, digits.upper()


def _base64_pieces(raw: bytes) -> Iterator[str]:
    """Yield the parts of ``raw`` in base64 that do not depend on the bytes around it (`user:` before a password): one
    for each of the three alignments to a group of three bytes."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + raw).rstrip(b"=").decode()
        skipped = (0, 2, 3)[before]  # characters with bits of the preceding bytes
        shared = (before + len(raw)) % 3  # the last character has bits of the following bytes
        piece = encoded[skipped : len(encoded) - (1 if shared else 0)]
        if len(piece) >= _SHORTEST_PIECE:
            yield piece
            yield piece.replace("+", "-").replace("/", "_")
