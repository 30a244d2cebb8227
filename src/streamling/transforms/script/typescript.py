"""Converts TypeScript to JavaScript by blanking: types become spaces, so that every line and column keeps its position.

Syntax with a run-time meaning is rewritten in place: enums, and parameter properties of constructors. Types are not
checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Set
from typing import TYPE_CHECKING

from streamling.transforms.script.syntax import parse_script

if TYPE_CHECKING:
    from tree_sitter import Node

#: nodes that only contain types
_TYPES = frozenset(
    {
        "type_annotation",
        "type_arguments",
        "type_parameters",
        "type_predicate_annotation",
        "asserts_annotation",
        "implements_clause",
        "accessibility_modifier",
        "override_modifier",
        "index_signature",
        "abstract_method_signature",
        "method_signature",
    }
)
#: statements that only contain types
_STATEMENTS = frozenset(
    {
        "interface_declaration",
        "type_alias_declaration",
        "ambient_declaration",
        "function_signature",
    }
)
#: keywords and marks that mean something else outside these parents
_MARKS = {
    "abstract_class_declaration": {"abstract"},
    "public_field_definition": {"readonly", "abstract", "!", "?"},
    "method_definition": {"?"},
    "required_parameter": {"readonly"},
    "optional_parameter": {"readonly", "?"},
    "non_null_expression": {"!"},
    "variable_declarator": {"!"},
    "export_statement": {"export", "default"},
}
#: ``x as T``, ``x satisfies T``: everything after the first part is about types
_CASTS = frozenset({"as_expression", "satisfies_expression"})
#: names that an enum member may have but a constant may not
_RESERVED = re.compile(
    "await|break|case|catch|class|const|continue|debugger|default|delete|do|else|enum|export|extends|false|"
    "finally|for|function|if|implements|import|in|instanceof|interface|let|new|null|package|private|protected|"
    "public|return|static|super|switch|this|throw|true|try|typeof|var|void|while|with|yield"
)
_PROPERTY_MARKS = frozenset({"accessibility_modifier", "readonly", "override_modifier"})


def strip_types(text: str) -> str:
    """Return ``text`` as JavaScript with the same lines. Invalid syntax is left for the engine to report."""
    stripper = _Stripper(text.encode())
    stripper.visit(parse_script(text))
    return stripper.result()


class _Stripper:
    def __init__(self, source: bytes) -> None:
        self._source = source
        self._edits: list[tuple[int, int, bytes]] = []

    def result(self) -> str:
        parts, position = [], 0
        for start, end, text in sorted(self._edits, key=lambda edit: (edit[0], edit[1])):
            parts += [self._source[position:start], text]
            position = max(position, end)
        return b"".join([*parts, self._source[position:]]).decode()

    def visit(self, node: Node) -> None:
        rewrite = self._rewriter(node)
        if rewrite is not None:
            rewrite(node)
            return
        marks: Set[str] = _MARKS.get(node.type, frozenset())
        for child in node.children:
            if child.type in marks:
                self._blank(child)
            else:
                self.visit(child)

    def _rewriter(self, node: Node) -> Callable[[Node], None] | None:
        if node.type in _TYPES:
            return self._blank
        if node.type in _STATEMENTS or _is_type_import(node) or _is_declared_field(node):
            return self._blank_statement
        if node.type in _CASTS:
            return self._cast
        rewriters: dict[str, Callable[[Node], None]] = {
            "enum_declaration": self._enum,
            "formal_parameters": self._parameters,
            "statement_block": self._block,
        }
        return rewriters.get(node.type)

    def _blank(self, node: Node) -> None:
        self._edits.append((node.start_byte, node.end_byte, _blanks(self._text(node))))

    def _blank_statement(self, node: Node) -> None:
        """Blank a statement, but keep a semicolon: without it the lines around the gap could become one statement."""
        self._edits.append((node.start_byte, node.end_byte, b";" + _blanks(self._text(node))[1:]))

    def _cast(self, node: Node) -> None:
        value, rest = node.children[0], node.children[1]
        self.visit(value)
        self._edits.append((rest.start_byte, node.end_byte, _blanks(self._source[rest.start_byte : node.end_byte])))

    def _parameters(self, node: Node) -> None:
        """Blank a leading ``this: T``, which is not a parameter."""
        skipped = None
        for child in node.children:
            if child.type == "required_parameter" and child.children[0].type == "this":
                self._blank(child)
                skipped = child
            elif child.type == "," and skipped is not None:
                self._blank(child)
                skipped = None
            else:
                self.visit(child)

    def _block(self, node: Node) -> None:
        properties = list(_parameter_properties(node))
        if properties:
            position = _after_super(node)
            self._replace(position, position, "".join(f"; this.{name} = {name}" for name in properties) + ";")
        for child in node.children:
            self.visit(child)

    def _enum(self, node: Node) -> None:
        """Rewrite ``enum M { A = 1, B }`` as a function that fills ``M``; members are constants inside, so that later
        ones can refer to earlier ones."""
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if name is None or body is None:
            return  # invalid: the engine will report it
        enum = self._text(name).decode()
        self._replace(node.start_byte, body.start_byte + 1, f"var {enum} = (function ({enum}) {{")
        previous: str | None = None
        for member in body.named_children:
            if member.type != "comment":
                previous = self._member(enum, member, previous)
        for child in body.children:
            if child.type == ",":
                self._blank(child)
        self._replace(body.end_byte - 1, body.end_byte, f"return {enum}; }})({{}});")

    def _member(self, enum: str, member: Node, previous: str | None) -> str:
        """Rewrite one member of an enum; return its name, for the next one."""
        assigned = member.type == "enum_assignment"
        key = member.children[0] if assigned else member
        name = self._text(key).decode().strip("'\"")
        constant = f" const {name} = {enum}[{name!r}];" if _may_be_constant(name) else ""
        if not assigned:
            value = "0" if previous is None else f"{enum}[{previous!r}] + 1"
            self._replace(key.start_byte, key.end_byte, f"{enum}[{enum}[{name!r}] = {value}] = {name!r};{constant}")
            return name
        value_node = member.children[-1]
        is_text = value_node.type in ("string", "template_string")
        self._replace(
            key.start_byte, value_node.start_byte, f"{enum}[{name!r}] = " if is_text else f"{enum}[{enum}[{name!r}] = "
        )
        self.visit(value_node)
        self._replace(
            value_node.end_byte, value_node.end_byte, f";{constant}" if is_text else f"] = {name!r};{constant}"
        )
        return name

    def _replace(self, start: int, end: int, text: str) -> None:
        """Replace text, keeping the number of lines."""
        lines = b"\n" * self._source.count(b"\n", start, end)
        self._edits.append((start, end, text.encode() + lines))

    def _text(self, node: Node) -> bytes:
        return self._source[node.start_byte : node.end_byte]


def _blanks(text: bytes) -> bytes:
    """Return as many spaces as ``text`` has characters, keeping line breaks."""
    return "".join(char if char in "\r\n" else " " for char in text.decode()).encode()


def _may_be_constant(name: str) -> bool:
    return name.isidentifier() and _RESERVED.fullmatch(name) is None


def _is_type_import(node: Node) -> bool:
    return node.type == "import_statement" and any(child.type == "type" for child in node.children)


def _is_declared_field(node: Node) -> bool:
    return node.type == "public_field_definition" and any(child.type == "declare" for child in node.children)


def _parameter_properties(block: Node) -> Iterator[str]:
    """Yield the parameters of the constructor around ``block`` that are also fields."""
    method = block.parent
    if method is None or method.type != "method_definition":
        return
    parameters = method.child_by_field_name("parameters")
    for parameter in parameters.named_children if parameters is not None else ():
        marks = {child.type for child in parameter.children}
        name = parameter.child_by_field_name("pattern")
        if marks & _PROPERTY_MARKS and name is not None and name.text is not None:
            yield name.text.decode()


def _after_super(block: Node) -> int:
    """Return where ``this`` may first be used: after ``super(…)`` if the body starts with it."""
    for statement in block.named_children:
        if statement.text is not None and statement.text.startswith(b"super("):
            return statement.end_byte
    return block.start_byte + 1
