"""What proves that a setting does something: an observation that differs, or a test of the suite that depends on it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from streamling.config import AppConfig

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Observed:
    """``observe`` of a configuration gives something else with ``value`` than without."""

    observe: Callable[[AppConfig], object]
    value: Any
    #: what both configurations have besides, by dotted path
    base: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class By:
    """A test that fails when the setting is not read. It has to mention ``word`` (the setting's own name by default),
    itself or in the helpers of its module."""

    test: str
    word: str | None = None

    def missing(self, word: str) -> str | None:
        """What is wrong with this reference; None when it is in order."""
        file, _, name = self.test.partition("::")
        tests, text = _tests_of(file)
        if name not in tests:
            return f"{file} has no test {name}"
        return None if (self.word or word).lower() in text.lower() else f"{file} does not mention {self.word or word}"


@cache
def _tests_of(file: str) -> tuple[frozenset[str], str]:
    path = ROOT / file
    if not path.exists():
        return frozenset(), ""
    text = path.read_text()
    functions = [node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return frozenset(functions), text
