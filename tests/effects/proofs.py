"""What proves that a setting does something: an observation that differs, or a test of the suite that depends on it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
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
    """A test that fails when the setting is not read. It has to mention ``word`` (the setting's own name by default),
    itself or in what it uses of its module."""

    test: str
    word: str | None = None

    def missing(self, word: str) -> str | None:
        """What is wrong with this reference; None when it is in order."""
        file, _, name = self.test.partition("::")
        parts = _parts_of(file)
        if name not in parts:
            return f"{file} has no test {name}"
        return None if (self.word or word).lower() in _used(parts, name).lower() else f"{self.test} has no word of it"


def _used(parts: Mapping[str, Part], name: str) -> str:
    """The text of ``name`` and of everything of its module that it uses, fixtures included."""
    found: set[str] = set()
    waiting = {name}
    while waiting:
        found |= waiting
        waiting = {used for part in waiting for used in parts[part].names if used in parts} - found
    return "\n".join(parts[part].text for part in found)


@dataclass(frozen=True)
class Part:
    """A definition of a module: its text, and the names in it."""

    text: str
    names: frozenset[str]


@cache
def _parts_of(file: str) -> Mapping[str, Part]:
    """What a test file defines, methods included, by name."""
    path = ROOT / file
    if not path.exists():
        return {}
    text = path.read_text()
    parts: dict[str, Part] = {}
    for node in ast.walk(ast.parse(text)):
        for name in _defined(node):
            segment = ast.get_source_segment(text, node) or ""
            decorators = [ast.get_source_segment(text, each) or "" for each in getattr(node, "decorator_list", ())]
            known = parts.get(name, Part("", frozenset()))
            parts[name] = Part("\n".join([known.text, *decorators, segment]), known.names | frozenset(_names_in(node)))
    return parts


def _defined(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.arg):
            yield each.arg
