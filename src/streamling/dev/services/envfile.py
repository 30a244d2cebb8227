"""Files with environment variables, one `export NAME=value` per line, for `--env-file` and for `.` in a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from streamling.errors import InvalidPipeline, Problem

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def write_env_file(path: Path, variables: Mapping[str, str]) -> None:
    """Write ``variables`` to ``path``, readable only by its owner: values may be secrets."""
    new = path.with_name(f"{path.name}.new")
    new.touch(mode=0o600)
    new.write_text(
        "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()), encoding="utf-8"
    )
    new.replace(path)


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables in ``path``. Supports comments, empty lines, quotes, and lines without `export`."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        message = f"the file of variables cannot be read: {reason}"
        raise InvalidPipeline([Problem(message, str(path), remedy="check --env-file")]) from None
    variables = {}
    for number, line in enumerate(lines, 1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        try:
            words = shlex.split(value, comments=True)
        except ValueError:
            words = [""] * 2
        if not equals or not _NAME.fullmatch(name) or len(words) > 1:
            # the value may be a secret: not shown
            remedy = "write one NAME=value per line, and quote values with spaces or quotes in them"
            raise InvalidPipeline([Problem("a line is not NAME=value", str(path), number, 1, remedy)])
        variables[name] = words[0] if words else ""
    return variables
