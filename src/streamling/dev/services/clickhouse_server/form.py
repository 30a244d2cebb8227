"""Bodies of type multipart/form-data: parameters, and external data for the query."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_BOUNDARY: Final = re.compile(r'boundary="?([^";]+)"?')
_FIELD: Final = re.compile(rb'name="([^"]*)"(?:;\s*filename="([^"]*)")?')


@dataclass(frozen=True)
class Form:
    """The parts of a form: ``parameters`` are treated like those of the URL, ``files`` are tables."""

    parameters: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)


def is_form(content_type: str) -> bool:
    return content_type.startswith("multipart/form-data")


def parse_form(body: bytes, content_type: str) -> Form:
    form = Form()
    boundary = _BOUNDARY.search(content_type)
    separator = b"\r\n--" + (boundary[1] if boundary else "").encode()
    for part in (b"\r\n" + body).split(separator)[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        found = _FIELD.search(head)
        if found is None:
            continue
        name = found[1].decode()
        if found[2] is None:
            form.parameters[name] = content.decode()
        else:
            form.files[name] = content
    return form
