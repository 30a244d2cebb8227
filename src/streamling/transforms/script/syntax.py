"""The syntax tree of a script, JavaScript or TypeScript."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def parse_script(script: str) -> Node:
    """Parse a script and return the root; syntax errors are nodes of the tree."""
    import tree_sitter
    import tree_sitter_typescript

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))
    return parser.parse(script.encode()).root_node


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
