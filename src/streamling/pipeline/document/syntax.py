"""Translates YAML syntax errors: what was found where, and what was expected.

PyYAML has two parsers (C and Python) with different messages for the same error; the fragments below occur in both, or
have one line for each.
"""

from __future__ import annotations

from typing import Any

import yaml

from streamling.errors import Problem

_INDENT = "check the indentation of this line and the one above"

#: fragment of the parser's message → problem, remedy
_MEANINGS: tuple[tuple[str, str, str], ...] = (
    (
        "mapping values are not allowed",
        "a ':' is not allowed here",
        f"put the value in quotes if it contains ': ', or {_INDENT}",
    ),
    ("could not find expected ':'", "a key is not followed by ':'", "write 'key: value' on each line"),
    ("violates indentation", "a tab is used for indentation", "indent with spaces"),
    (
        "sequence entries are not allowed",
        "a list item is not allowed here",
        "put each '- ' on its own line",
    ),
    (
        "expected ',' or ']'",
        "a list in brackets that starts here is not closed",
        "add the missing ',' or ']'",
    ),
    (
        "expected ',' or '}'",
        "a mapping in braces that starts here is not closed",
        "add the missing ',' or '}'",
    ),
    ("expected '-' indicator", "a key is not allowed among list items", _INDENT),
    ("expected key", "this line does not fit the mapping around it", _INDENT),
    ("expected <block end>", "this line does not fit the block around it", _INDENT),
    (
        "unknown escape",
        "an unknown escape follows a '\\' in double quotes",
        "use single quotes, or write '\\\\'",
    ),
    ("alphabetic or numeric character", "a name is expected after '*' or '&'", "put the text in quotes"),
    ("expected node content", "a value is expected", "write the value, or put it in quotes"),
    ("the node content", "a value is expected", "write the value, or put it in quotes"),
    ("comment or line break", "text follows the '|' or '>' of a block", "start the text on the next line"),
    ("chomping or indentation", "text follows the '|' or '>' of a block", "start the text on the next line"),
    ("incompatible YAML document", "the file declares another version of YAML", "remove the '%YAML' line"),
)


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """Return the parser's ``error`` in plain words, with its location."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return _translate_marked_error(error, text, file)
    position = getattr(error, "position", None)
    if isinstance(position, int):
        before = text[:position]
        line, column = before.count("\n") + 1, position - before.rfind("\n")
        code = getattr(error, "character", 0)
        message = f"the character U+{code if isinstance(code, int) else ord(code):04X} is not allowed in YAML"
        return Problem(message, file, line, column, "remove it, or write it as an escape in double quotes")
    return Problem(f"the YAML cannot be read: {error}", file)


def _translate_marked_error(error: yaml.MarkedYAMLError, text: str, file: str) -> Problem:
    mark: Any = error.problem_mark
    said = error.problem or ""
    if error.context_mark is not None and ("end of stream" in said or "expected ','" in said):
        mark = error.context_mark
    if "unexpected end of stream" in said:
        meaning, remedy = "a quoted text that starts here is not closed", "add the closing quote"
    elif "cannot start any token" in said:
        meaning, remedy = _forbidden_start(text[mark.index : mark.index + 1])
    else:
        meaning, remedy = next(
            ((meaning, remedy) for part, meaning, remedy in _MEANINGS if part in said),
            (f"the YAML cannot be read: {said}", "check this line and the one above"),
        )
    return Problem(meaning, file, mark.line + 1, mark.column + 1, remedy)


def _forbidden_start(char: str) -> tuple[str, str]:
    if char == "\t":
        return "a tab is used for indentation", "indent with spaces"
    return f"a value cannot start with {char!r}", "put the value in quotes"
