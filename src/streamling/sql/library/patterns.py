"""Converts regular expressions from Rust's syntax to Java's."""

from __future__ import annotations

import re

from sqlglot import exp

from streamling.sql.library.declaration import Args, UnsupportedSql, fill, literal_text

_CLASSES = {
    "alpha": "Alpha", "digit": "Digit", "alnum": "Alnum", "upper": "Upper", "lower": "Lower", "space": "Space",
    "punct": "Punct", "xdigit": "XDigit", "blank": "Blank", "cntrl": "Cntrl", "graph": "Graph", "print": "Print",
}  # fmt: skip
#: what these match depends on the alphabet; by default, Java considers only ASCII
_ALPHABET = ("\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "\\b", "\\B", "(?i")
#: the end, and what it may be part of: an escape, a character class
_END = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\$", re.S)
_SETS_MULTILINE = re.compile(r"\(\?[a-z]*m")
_FLAGS = {"i": "iu", "s": "s", "m": "m", "x": "x", "U": "", "g": ""}


def java(pattern: str, flags: str = "") -> str:
    """``pattern`` with Rust's meaning: lines end only at a line feed, and ``$`` is the very end."""
    is_multiline = "m" in flags or _SETS_MULTILINE.search(pattern) is not None
    spelled = pattern if is_multiline else _END.sub(lambda found: r"\z" if found[0] == "$" else found[0], pattern)
    spelled = spelled.replace("(?P<", "(?<")
    for posix, name in _CLASSES.items():
        spelled = spelled.replace(f"[:{posix}:]", f"\\p{{{name}}}")
    if unknown := set(flags) - set(_FLAGS):
        raise UnsupportedSql(f"'{min(unknown)}' is not a flag of regular expressions", "flags are i, s, m, x and g")
    inline = "".join(_FLAGS[flag] for flag in flags)
    inline += "d" if any(mark in spelled for mark in ".^$") else ""
    inline += "U" if any(mark in spelled for mark in _ALPHABET) or "i" in flags else ""
    return f"(?{inline}){spelled}" if inline else spelled


def is_valid(pattern: str) -> bool:
    """False for what no engine accepts: unbalanced brackets, a repetition of nothing."""
    return _python(pattern) is not None


def groups(pattern: str) -> int | None:
    """The number of groups of a pattern, if it is known."""
    compiled = _python(pattern)
    return compiled.groups if compiled is not None else None


def _python(pattern: str) -> re.Pattern[str] | None:
    neutral = re.sub(r"\\[pP](\{[^}]*\}|\w)", ".", pattern).replace("(?<", "(?P<")
    neutral = neutral.replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace("\\z", "$")
    neutral = re.sub(r"\[:\w+:\]", "a", neutral)
    try:
        return re.compile(neutral)
    except (re.error, OverflowError):
        return None


def java_pattern(arg: exp.Expr, flags: exp.Expr | None = None) -> exp.Expr:
    """A pattern argument for Java: literals are translated, others get the alphabet and the flags as a prefix."""
    chosen = literal_text(flags) if flags is not None else ""
    if chosen is None:
        raise UnsupportedSql("the flags of a regular expression must be a text literal", "such as 'i'")
    written = literal_text(arg)
    if written is not None:
        return exp.Literal.string(java(written, chosen))
    return fill("concat({1}, {0})", [arg, exp.Literal.string(java("\\d.", chosen).removesuffix("\\d."))])


def invalid(args: Args, place: int = 1) -> bool:
    """Whether the pattern is an invalid literal: the result is then NULL."""
    written = literal_text(args[place])
    return written is not None and not is_valid(written)
