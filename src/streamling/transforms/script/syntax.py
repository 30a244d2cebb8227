"""The syntax tree of a script, JavaScript or TypeScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def parsed(script: str) -> Node:
    """The root; what cannot be read is in the tree as an error."""
    import tree_sitter
    import tree_sitter_typescript

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))
    return parser.parse(script.encode()).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
