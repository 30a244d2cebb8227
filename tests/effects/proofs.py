"""What proves that a setting does something: an observation that differs, or a test of the suite that depends on it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from streamling.pipeline.config import AppConfig

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
    """A test that fails when the setting has no effect: `removal.py` runs it without the setting."""

    test: str

    @property
    def exists(self) -> bool:
        file, _, name = self.test.partition("::")
        return name in _tests_of(file)


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
