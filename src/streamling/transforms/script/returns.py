"""The columns that a script returns, as far as its text shows: names in objects that it returns directly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from streamling.transforms.script.syntax import parse_script, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_FUNCTIONS: Final = frozenset(
    {"function_declaration", "function_expression", "arrow_function", "method_definition", "generator_function"}
)
#: nodes that wrap a value without changing it
_WRAPPERS: Final = frozenset(
    {"parenthesized_expression", "as_expression", "satisfies_expression", "non_null_expression"}
)
_ROW_FUNCTION_NAMES: Final = ("process", "invoke")


def returned_names(script: str) -> list[str]:
    """Return the names of columns, each once. Without those of spread objects, computed names, or rows built
    elsewhere."""
    function = _row_function(parse_script(script))
    if function is None:
        return []
    return list(dict.fromkeys(name for value in _returned_values(function) for name in _names(value)))


def _row_function(root: Node) -> Node | None:
    """Return the function that takes a row, or None if that is ambiguous."""
    named = [(_name_of(function), function) for function in _outermost(root)]
    matching = [function for name, function in named if name in _ROW_FUNCTION_NAMES]
    if matching:
        return matching[-1]
    return named[0][1] if len(named) == 1 else None


def _outermost(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        if child.type in _FUNCTIONS:
            yield child
        else:
            yield from _outermost(child)


def _name_of(function: Node) -> str:
    name = function.child_by_field_name("name")
    declared = function.parent
    if name is None and declared is not None and declared.type == "variable_declarator":
        name = declared.child_by_field_name("name")
    return "" if name is None else text_of(name)


def _returned_values(function: Node) -> Iterator[Node]:
    body = function.child_by_field_name("body")
    if body is None:
        return
    if body.type != "statement_block":  # an arrow function
        yield body
        return
    waiting = [body]
    while waiting:
        node = waiting.pop()
        if node.type == "return_statement":
            yield from node.named_children[:1]
        elif node.type not in _FUNCTIONS:
            waiting += reversed(node.named_children)


def _names(value: Node) -> Iterator[str]:
    if value.type in _WRAPPERS and value.named_children:
        yield from _names(value.named_children[0])
    elif value.type == "ternary_expression":
        for branch in ("consequence", "alternative"):
            if (node := value.child_by_field_name(branch)) is not None:
                yield from _names(node)
    elif value.type == "array":
        for item in value.named_children:
            yield from _names(item)
    elif value.type == "object":
        yield from filter(None, map(_key, value.named_children))


def _key(part: Node) -> str | None:
    if part.type == "shorthand_property_identifier":
        return text_of(part)
    key = part.child_by_field_name("key") if part.type == "pair" else None
    if key is None or key.type not in ("property_identifier", "string"):
        return None
    text = text_of(key)
    return text[1:-1] if key.type == "string" and "\\" not in text else None if key.type == "string" else text
