"""All declared functions by name."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from streamling.sql.library.declaration import Function, Kernel

#: one module of declarations each, in the order of the documentation, with its title
FAMILIES: dict[str, str] = {
    "strings": "Text",
    "numbers": "Numbers",
    "times": "Dates and times",
    "lists": "Lists",
    "listchanges": "Changing lists",
    "listmath": "Lists of numbers",
    "nested": "Structs, maps and types",
    "regex": "Regular expressions",
    "conditional": "Choices",
    "hashes": "Hashes and encodings",
    "json": "JSON",
    "flink": "Text, as in Flink",
    "rust": "Lists and identifiers of the Rust implementation",
    "wide_numbers": "Wide integers and decimals",
}


def family(name: str) -> tuple[Function, ...]:
    """Return the functions of one module, in order of declaration."""
    declared: tuple[Function, ...] = import_module(f"streamling.sql.library.{name}").FUNCTIONS
    return declared


def functions() -> Iterator[Function]:
    for name in FAMILIES:
        yield from family(name)


@cache
def _by_name() -> dict[str, Function]:
    return {name: function for function in functions() for name in function.names}


def find(name: str) -> Function | None:
    return _by_name().get(name)


def names() -> frozenset[str]:
    return frozenset(_by_name())


@cache
def kernels() -> tuple[Kernel, ...]:
    """Return every kernel that some function may use."""
    return tuple(dict.fromkeys(kernel for function in functions() for kernel in function.kernels))
