"""The encodings in which a secret returns from a peer, a library or a log."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape, quoteattr

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "in a URL": lambda text: quote(text, safe=""),
    "in a path": quote,
    "in a URL, lower case": lambda text: "".join(
        f"%{byte:02x}" if chr(byte) not in "abcdefghijklmnopqrstuvwxyz0123456789" else chr(byte)
        for byte in text.encode()
    ),
    "in a form": quote_plus,
    "in a URL in a URL": lambda text: quote(quote(text, safe=""), safe=""),
    "in JSON": lambda text: json.dumps(text)[1:-1],
    "in JSON, UTF-8": lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
    "in JSON with \\/": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "in JSON in JSON": lambda text: json.dumps(json.dumps(text)[1:-1])[1:-1],
    "in base64": lambda text: base64.b64encode(text.encode()).decode(),
    "in base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "in Python": lambda text: repr(text)[1:-1],
    "in Python, ASCII": lambda text: ascii(text)[1:-1],
    "as bytes in Python": lambda text: repr(text.encode())[2:-1],
    "in XML": escape,
    "in an attribute of XML": lambda text: quoteattr(text)[1:-1],
    "in HTML": html.escape,
    "in octal": lambda text: "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"\\{byte:03o}" for byte in text.encode()
    ),
    "in hex, as Postgres writes bytes": lambda text: f"\\x{text.encode().hex()}",
    "in hex": lambda text: text.encode().hex(),
    "read as Latin-1": lambda text: text.encode().decode("latin-1"),
}
#: a password together with its user; only values that are long enough can be found inside
WITH_USER: dict[str, Callable[[str], str]] = {
    f"in base64 with the user {user!r}": lambda text, user=user: base64.b64encode(f"{user}:{text}".encode()).decode()  # type: ignore[misc]
    for user in ("me", "bob", "alice")
}
#: the text around it
PLACES = (
    "{}",
    "the server said: 401 {} is not valid",
    '{{"error": "bad token {}"}}',
    "GET /rows?x={}&y=1 HTTP/1.1",
    "token '{}'",
    "x={};",
    "<reason>{}</reason>",
)
