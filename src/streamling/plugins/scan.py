"""Finds the ids that a plugin file declares, without running it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path


def declared_ids(file: Path) -> frozenset[str] | None:
    """Return the ids in the ``@plugin("…")`` decorators of ``file``; None if they cannot be known without running
    it."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError):
        return None
    names = {"plugin", *_aliases(tree)}
    ids = set()
    for call in _calls(tree):
        called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if called not in names:
            continue
        id = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "id"), None)
        if not isinstance(id, ast.Constant) or not isinstance(id.value, str):
            return None
        ids.add(id.value)
    return frozenset(ids)


def _aliases(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.name == "plugin" and alias.asname)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))
