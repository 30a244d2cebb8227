"""Keeps secrets out of all output.

Every secret that is read (configuration, environment, pipeline file) is registered here. `redact` masks it in any
encoding: plain, quoted for URLs and forms, escaped for JSON, XML, HTML or Python, in base64 or hex, and in any
combination. Unregistered credentials, such as those in a URL from a peer, are recognised by their form. There is one
registry per process, because there is one standard error per process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator

from streamling.encodings import canonical, canonical_forms, hex_forms

MASK = "**********"

#: Shorter values are masked only where their form gives them away: as plain text they occur everywhere.
SHORTEST = 4
#: Values of only letters or only digits that are shorter than this are masked as whole words: not `test` inside
#: `latest`.
_SHORTEST_ANYWHERE = 8

#: Values that are not secret: masking them would make every message unreadable and protect nothing.
_PUBLIC = frozenset(
    (
        *("admin", "blackhole", "clickhouse", "default", "dynamic_table", "false", "file", "guest", "handler", "http"),
        *("https", "hybrid", "kafka", "localhost", "memory", "none", "null", "password", "postgres", "postgresql"),
        *("postgres_aggregate", "print", "public", "root", "script", "secret", "sqlite", "streamling", "token"),
        *("true", "user", "username", "webhook"),
    )
)

_WORD = r"[\w.%-]{0,64}"
_SECRET_NAME = (
    rf"(?:{_WORD}(?:secret|passw(?:or)?d|passphrase|pwd|token|credential|access[._-]?key|api[._-]?key){_WORD}"
    rf"|{_WORD}authorization|(?:{_WORD}[._-])?(?:auth|sig|signature|pass|cookie)|key)"
)

# Repetitions are bounded: a peer controls the text, and unbounded ones would take quadratic time.
#: credentials recognised by form → what remains
_FORMS: tuple[tuple[re.Pattern[str], str], ...] = (
    # everything from the colon to the last @ of the word: a password may contain unescaped @ and /
    (re.compile(r"(://[^\s/:@'\"<>]{0,256}:)[^\s'\"<>]{1,512}(?=@)"), rf"\1{MASK}"),
    (re.compile(r"(https?://)[^\s/:@'\"<>?]{1,512}(?=@)", re.IGNORECASE), rf"\1{MASK}"),
    (re.compile(rf"([?&;]{_SECRET_NAME}=)[^\s&;'\"<>]+", re.IGNORECASE), rf"\1{MASK}"),
    (
        re.compile(r"(\b(?:password|passwd|pwd|sslpassword)\s?=\s?)(?:'[^']*'|[^\s,;'\"&)}]+)", re.IGNORECASE),
        rf"\1{MASK}",
    ),
    (re.compile(r"(\b(?:Bearer|Basic)\s{1,8})(?=\S{0,256}\d)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE), rf"\1{MASK}"),
)


def has_secret_name(name: str) -> bool:
    """Return whether ``name`` probably names a secret: Spark's rule for its settings, and some more."""
    return re.fullmatch(_SECRET_NAME, name, re.IGNORECASE) is not None


class Redactor:
    """The secrets known so far."""

    def __init__(self) -> None:
        #: what to search for in plain text, and in its canonical form
        self._plain: tuple[str, ...] = ()
        self._hex: tuple[str, ...] = ()
        self._spelled: tuple[str, ...] = ()
        self._lock = threading.Lock()

    def add(self, secrets: Iterable[str]) -> None:
        """Mask ``secrets`` from now on."""
        with self._lock:
            new = {part for secret in secrets for part in _parts(secret)}.difference(self._plain)
            self._hex += tuple(sorted(digits for secret in new for digits in hex_forms(secret)))
            spelled = {canonical(spelling).text for secret in new for spelling in canonical_forms(secret)}
            self._plain += tuple(sorted(new))
            self._spelled += tuple(sorted(text for text in spelled if len(text) >= SHORTEST))

    def redact(self, text: str) -> str:
        """Return ``text`` without credentials."""
        if not text:
            return text
        there = (secret for secret in (*self._plain, *self._hex) if secret in text)
        spans = [span for secret in there for span in _found(secret, text)]
        if self._spelled:
            form = canonical(text)
            spelled = (spelling for spelling in self._spelled if spelling in form.text)
            spans += [form.span(*span) for spelling in spelled for span in _found(spelling, form.text)]
        text = _masked(text, spans) if spans else text
        for pattern, kept in _FORMS:
            text = pattern.sub(kept, text)
        return text


process_redactor = Redactor()
add_secrets = process_redactor.add
redact = process_redactor.redact


def excerpt(text: str, most: int) -> str:
    """Return the beginning of a text from outside, on one line. Secrets are masked first: a truncated one, or one with
    changed spaces, would not be found later."""
    line = " ".join(redact(text).split())
    return line if len(line) <= most else f"{line[:most]}…"


def _parts(secret: str) -> Iterable[str]:
    """Return what to mask for ``secret``: itself, and the parts that peers quote."""
    candidates = {secret, secret.strip()}
    scheme, space, rest = secret.strip().partition(" ")
    if space and scheme.lower() in ("bearer", "basic", "token", "apikey"):
        candidates.add(rest.strip())  # a header is often quoted without its scheme
    if "\n" in secret:
        candidates |= {line.strip() for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_ANYWHERE}
    return (part for part in candidates if len(part) >= SHORTEST and part.casefold() not in _PUBLIC)


def _found(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of ``secret`` in ``text``; one that could be a word matches only whole words."""
    at = text.find(secret)
    word = at >= 0 and len(secret) < _SHORTEST_ANYWHERE and (secret.isalpha() or secret.isdigit())
    while at >= 0:
        end = at + len(secret)
        if not word or not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            yield at, end
        at = text.find(secret, end)


def _masked(text: str, spans: list[tuple[int, int]]) -> str:
    pieces: list[str] = []
    done = 0
    for start, end in sorted(spans):
        if start > done or not pieces:
            pieces += [text[done:start], MASK]
        done = max(done, end)
    return "".join([*pieces, text[done:]])
