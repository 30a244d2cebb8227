"""Rules for tests that no linter knows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.paths import TESTS

_PRIVATE = re.compile(r"_[A-Za-z]\w*")
#: names that other libraries offer under an underscore: PySpark and Py4J, `os`, `sys`, named tuples
_OTHERS = frozenset({"_jvm", "_jdf", "_jsc", "_jsparkSession", "_conf", "_exit", "_base_executable", "_replace"})
_ATTRIBUTE_FUNCTIONS = frozenset({"getattr", "setattr", "hasattr", "delattr"})


def private_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Find private attributes of other objects, and imports of private names of the product or of another test."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, attr=name) if not _is_own(owner):
                yield from _private(node, name)
            case ast.ImportFrom(module=str(module), names=names) if module.startswith(("streamling", "tests")):
                for alias in names:
                    yield from _private(node, alias.name)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[owner, *_] as arguments):
                if name in _ATTRIBUTE_FUNCTIONS and not _is_own(owner):
                    for argument in arguments:
                        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                            yield from _private(node, argument.value)


def _private(node: ast.expr | ast.stmt, name: str) -> Iterator[tuple[int, str]]:
    last = name.rpartition(".")[2]
    if _PRIVATE.fullmatch(last) and last not in _OTHERS:
        yield node.lineno, name


def _is_own(owner: ast.expr) -> bool:
    match owner:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
    return False


def test_tests_read_only_what_is_public() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line} {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for line, name in private_names(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not found, "use what is public, or make it public:\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("run._state", ["_state"]),
        ("run.source._reader.root", ["_reader"]),
        ("from streamling.redaction import _process", ["_process"]),
        ("from tests.harness import _x, y", ["_x"]),
        ("monkeypatch.setattr(module, '_SECONDS', 1)", ["_SECONDS"]),
        ("monkeypatch.setattr('streamling.retry._sleep', 1)", ["streamling.retry._sleep"]),
        ("getattr(store, '_store', store)", ["_store"]),
        ("self._state, super()._state, spark._jvm, x.__dict__", []),
        ("from _pytest.runner import runtestprotocol", []),
    ],
)
def test_what_counts_as_private(code: str, names: list[str]) -> None:
    assert [name for _, name in private_names(ast.parse(code))] == names
