"""What the server must know about a statement before the engine runs it: the format of its output, and where its data
begin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Final, NamedTuple

_TOKEN: Final = re.compile(
    rb"""(?P<space>\s+|--[^\n]*|//[^\n]*|\#[!\ ][^\n]*)
       | (?P<comment>/\*)
       | (?P<quoted>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`\\]|\\.|``)*`|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
       | (?P<word>[^\W\d]\w*)
       | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK: Final = re.compile(rb"/\*|\*/")
_OPENING: Final = b"([{"
_CLOSING: Final = b")]}"
#: after one of these, an INSERT takes its rows from a query or a file
_ROWS_FROM_QUERY: Final = frozenset({b"SELECT", b"WITH", b"FROM", b"WATCH"})
_SPACE_BEFORE_DATA: Final = re.compile(rb"[ \t\f]*\r?\n?")


class Token(NamedTuple):
    """A word in upper case, or one character; only those outside all brackets are interesting."""

    text: bytes
    start: int
    end: int


@dataclass(frozen=True)
class Insert:
    """An INSERT with its data: ``query`` without the format, which is what the engine's streaming insert takes."""

    query: bytes
    format: str
    #: where the data begin in the text that was parsed
    data_start: int


@dataclass(frozen=True)
class Statement:
    """The statement of a request; the rows of an INSERT begin in ``text`` and continue in ``body``."""

    text: bytes
    insert: Insert | None
    body: Iterator[bytes]

    @classmethod
    def read(cls, query: str, body: Iterator[bytes]) -> Statement:
        """Return the query of the URL, a line break and the body; reads as little of the body as possible."""
        text = query.encode() + b"\n" if query else b""
        insert = parse_insert(text)
        while insert is None or (insert.data_start == len(text) and not query):  # more of the format's name may follow
            if not (more := next(body, b"")):
                break
            text += more
            insert = parse_insert(text)
        return cls(text, insert, body)

    @property
    def head(self) -> bytes:
        """The statement without data."""
        return self.text[: self.insert.data_start] if self.insert else self.text

    @property
    def data(self) -> Iterator[bytes]:
        """The rows of an INSERT."""
        first = self.text[self.insert.data_start :] if self.insert else b""
        return chain([first] if first else [], self.body)

    @property
    def changes_session(self) -> bool:
        return first_word(self.text) in ("SET", "USE")


def parse_insert(text: bytes) -> Insert | None:
    """Return the INSERT at the beginning of ``text``; None for another statement or an INSERT of a query's rows."""
    tokens = _top_level_tokens(text)
    if next(tokens, _END).text != b"INSERT":
        return None
    before = _END
    for token in tokens:
        if token.text in _ROWS_FROM_QUERY:
            return None
        if before.text == b"FORMAT":
            return Insert(text[: before.start], text[token.start : token.end].decode(), _data_start(text, token.end))
        if token.text == b"VALUES":
            return Insert(text[: token.start], "Values", token.end)
        before = token
    return None


def split_format(text: bytes) -> tuple[bytes, str | None, bytes]:
    """Return a query with output as: what precedes its FORMAT clause, the format if it has one, what follows."""
    tokens = [token for token in _top_level_tokens(text) if token.text != b";"]
    for keyword, name, after in zip(tokens, tokens[1:], [*tokens[2:], _END], strict=False):
        if keyword.text == b"FORMAT" and name.text.isalnum() and after.text in (b"", b"SETTINGS"):
            end = tokens[-1].end
            return text[: keyword.start], text[name.start : name.end].decode(), text[name.end : end]
    return text[: tokens[-1].end if tokens else 0], None, b""


def contains(text: bytes, first: bytes, second: bytes) -> bool:
    """Return whether the statement has these two words next to each other, outside brackets."""
    return any(found.text == first and after.text == second for found, after in pairwise(_top_level_tokens(text)))


def first_word(text: bytes) -> str:
    """Return the keyword that a statement begins with, in upper case."""
    return next(_top_level_tokens(text), _END).text.decode(errors="replace")


_END: Final = Token(b"", 0, 0)


def _top_level_tokens(text: bytes) -> Iterator[Token]:
    depth = 0
    position = 0
    while match := _TOKEN.match(text, position):
        position = _comment_end(text, position) if match.lastgroup == "comment" else match.end()
        if match.lastgroup in ("space", "comment"):
            continue
        found = match[0]
        if found in _CLOSING:
            depth -= 1
        if depth == 0:
            yield Token(found.upper() if match.lastgroup == "word" else found, *match.span())
        if found in _OPENING:
            depth += 1


def _comment_end(text: bytes, start: int) -> int:
    """Return the end of a comment that may contain others."""
    open_comments = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        open_comments += 1 if mark[0] == b"/*" else -1
        if open_comments == 0:
            return mark.end()
    return len(text)


def _data_start(text: bytes, after_name: int) -> int:
    found = _SPACE_BEFORE_DATA.match(text, after_name)
    return found.end() if found else after_name
