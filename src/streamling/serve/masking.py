"""Definitions and settings without secrets, but with the references to them."""

from __future__ import annotations

import re
from typing import Any

from streamling.redaction import redact

_REFERENCE = re.compile(r"\$\{[^}]*\}")
#: Quotes end everything that is recognised as a credential by its form, such as `token=…`; the private character keeps
#: other quotes apart.
_PLACEHOLDER = '"\ue000{}\ue000"'
_PLACEHOLDERS = re.compile('"\ue000(\\d+)\ue000"')


def masked_text(text: str) -> str:
    """Return ``text`` with secrets masked; ``${secret:NAME}`` names a secret and stays."""
    references = _REFERENCE.findall(text)
    numbers = iter(range(len(references)))
    hidden = _REFERENCE.sub(lambda _: _PLACEHOLDER.format(next(numbers)), text.replace("\ue000", ""))
    return _PLACEHOLDERS.sub(lambda found: references[int(found[1])], redact(hidden))


def masked_values(value: Any) -> Any:
    """Return a JSON value with secrets masked in all of its texts."""
    if isinstance(value, dict):
        return {key: masked_values(each) for key, each in value.items()}
    if isinstance(value, list):
        return [masked_values(each) for each in value]
    return masked_text(value) if isinstance(value, str) else value
