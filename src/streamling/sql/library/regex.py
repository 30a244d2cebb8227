"""Regular expressions: Java's matches with Rust's syntax. An invalid pattern returns NULL, as in the Rust
implementation."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
from sqlglot import exp

from streamling.sql.fragments import Args, UnsupportedSql, fill, literal_text
from streamling.sql.library.declaration import Function, Rewrite

_TEXT, _BOOL, _LONG, _TEXTS = pa.string(), pa.bool_(), pa.int64(), pa.list_(pa.string())


def _null(type_: str) -> exp.Expr:
    return exp.Var(this=f"CAST(NULL AS {type_})")


def _guarded(type_: str, rewrite: Callable[[Args], exp.Expr]) -> Rewrite:
    """Return NULL for an invalid pattern."""
    return lambda args: _null(type_) if invalid(args) else rewrite(args)


def _like(args: Args) -> exp.Expr:
    return fill("rlike({0}, {1})", [args[0], java_pattern(args[1], *args[2:3])])


def _count(args: Args) -> exp.Expr:
    pattern = java_pattern(args[1], *args[3:4])
    text = fill("substring({0}, {1})", [args[0], args[2]]) if len(args) > 2 else args[0]
    return fill("CAST(regexp_count({0}, {1}) AS BIGINT)", [text, pattern])


def _place(args: Args) -> exp.Expr:
    """Return the position of the n-th match: after n - 1 matches and the text between them."""
    pattern = java_pattern(args[1], *args[4:5])
    start = args[2] if len(args) > 2 else exp.Literal.number(1)
    number = args[3] if len(args) > 3 else exp.Literal.number(1)
    text = fill("substring({0}, {1})", [args[0], start])
    before = fill("concat('(?s)^((?:.*?(?-s:', {0}, ')){{', {1} - 1, '}}.*?)(?-s:', {0}, ')')", [pattern, number])
    found = "CAST(length(regexp_extract({0}, {1}, 1)) + {2} AS BIGINT)"
    return fill(
        f"if(rlike({{0}}, {{1}}), {found}, if({{0}} IS NULL OR {{1}} IS NULL, NULL, 0L))", [text, before, start]
    )


def _match(args: Args) -> exp.Expr:
    """Return the groups of the first match, or the whole match if there are none."""
    written = literal_text(args[1])
    count = groups(written) if written is not None else None
    if count is None:
        raise UnsupportedSql("the pattern must be a text literal", "or use regexp_extract(text, pattern, group)")
    pattern = java_pattern(args[1], *args[2:3])
    found = [f"regexp_extract({{0}}, {{1}}, {group})" for group in (range(1, count + 1) if count else [0])]
    return fill(f"if(rlike({{0}}, {{1}}), array({', '.join(found)}), NULL)", [args[0], pattern])


def _replace(args: Args) -> exp.Expr:
    pattern = java_pattern(args[1], *args[3:4])
    if len(args) == 3:
        literal = "replace(replace({2}, '\\\\', '\\\\\\\\'), '$', '\\\\$')"
        return fill(f"regexp_replace({{0}}, {{1}}, {literal})", [args[0], pattern, args[2]])
    replacement = literal_text(args[2])
    if replacement is None:
        raise UnsupportedSql("the replacement must be a text literal if there are flags", "remove the flags")
    everywhere = "g" in (literal_text(args[3]) or "")
    references = _References(literal_text(args[1]), 0 if everywhere else 1)
    with_groups = exp.Literal.string(("" if everywhere else "$1") + references.java(replacement))
    if references.missing:  # they are empty; Java would fail
        pattern = fill("concat({0}, {1})", [pattern, exp.Literal.string("()" * references.missing)])
    if everywhere:
        return fill("regexp_replace({0}, {1}, {2})", [args[0], pattern, with_groups])
    first = fill("concat('(?s)^(.*?)(?-s:', {0}, ')')", [pattern])
    return fill("regexp_replace({0}, {1}, {2})", [args[0], first, with_groups])


class _References:
    """References to groups in a replacement, for Java. ``pattern`` is None if it is not a literal."""

    _GROUP = re.compile(r"\\(\d+)|\$(\w+)|\$\{([^}]*)\}|(\$\$)|(.)", re.ASCII | re.DOTALL)

    def __init__(self, pattern: str | None, shift: int) -> None:
        self._count = (groups(pattern) or 0) if pattern is not None else 0
        self._names = set(re.findall(r"\(\?P?<(\w+)>", pattern or ""))
        self._shift = shift
        #: number of referenced groups beyond those of the pattern
        self.missing = 0

    def java(self, replacement: str) -> str:
        """Return ``\1``, ``$1``, ``${1}`` and ``$name`` in Java's syntax; everything else is literal."""
        return "".join(map(self._part, self._GROUP.finditer(replacement)))

    def _part(self, found: re.Match[str]) -> str:
        name = found[1] or found[2] or found[3] or ""
        if name.isdigit() and len(name) < 4:
            self.missing = max(self.missing, int(name) - self._count)
            return f"${int(name) + self._shift}"
        if found[5] or found[4]:
            char = (found[5] or found[4])[0]
            return char if char not in "\\$0123456789" else "\\" + char
        return f"${{{name}}}" if name in self._names else ""


def _extract(args: Args) -> exp.Expr:
    group = args[2] if len(args) > 2 else exp.Literal.number(0)
    if _out_of_range(args):
        return _null("STRING")
    return fill("if(rlike({0}, {1}), regexp_extract({0}, {1}, {2}), NULL)", [args[0], java_pattern(args[1]), group])


def _extract_all(args: Args) -> exp.Expr:
    group = args[2] if len(args) > 2 else exp.Literal.number(1)
    if _out_of_range([*args[:2], group]):
        return _null("ARRAY<STRING>")
    return fill("regexp_extract_all({0}, {1}, {2})", [args[0], java_pattern(args[1]), group])


def _out_of_range(args: Args) -> bool:
    """Return whether the group does not exist in the pattern, if both are literals."""
    written, group = literal_text(args[1]), args[2] if len(args) > 2 else None
    if isinstance(group, exp.Neg):
        return True
    count = groups(written) if written is not None else None
    return count is not None and isinstance(group, exp.Literal) and int(group.name) > count


FUNCTIONS = (
    Function(
        "regexp_count",
        "text pattern place? flags?",
        _guarded("BIGINT", _count),
        "Number of matches, optionally starting at a position.",
        "regexp_count('abab', 'a') = 2",
        _LONG,
    ),
    Function(
        "regexp_instr",
        "text pattern place? place? flags?",
        _guarded("BIGINT", _place),
        "Position of the n-th match, optionally starting at a position; 0 if there is none.",
        "regexp_instr('abab', 'b') = 2\nregexp_instr('abab', 'b', 1, 2) = 4",
        _LONG,
    ),
    Function(
        "regexp_like",
        "text pattern flags?",
        _guarded("BOOLEAN", _like),
        "Whether there is a match; also `~` and `~*`.",
        "regexp_like('abc', '^a.c$')",
        _BOOL,
        "regexp similar",
    ),
    Function(
        "regexp_match",
        "text pattern flags?",
        _guarded("ARRAY<STRING>", _match),
        "The groups of the first match, or the match itself if the pattern has none.",
        "regexp_match('abc', '(a)(.)') = ['a', 'b']",
        _TEXTS,
    ),
    Function(
        "regexp_replace",
        "text pattern text flags?",
        _guarded("STRING", _replace),
        ("Replaces all matches. With flags: the first match, or all with `g`, and `\\1` is the first group."),
        "regexp_replace('aba', 'a', 'x') = 'xbx'\nregexp_replace('aba', '(a)', '<\\1>', 'g') = '<a>b<a>'",
        _TEXT,
        differs=(
            "with three arguments all matches are replaced and `\\1` is plain text, as in the Rust implementation"
        ),
    ),
    Function(
        "regexp_extract",
        "text pattern int?",
        _guarded("STRING", _extract),
        "A group of the first match, where 0 is the whole match; NULL if there is none.",
        "regexp_extract('foothebar', 'foo(.*?)(bar)', 2) = 'bar'\nregexp_extract('a', 'b') IS NULL",
        _TEXT,
    ),
    Function(
        "regexp_extract_all",
        "text pattern int?",
        _guarded("ARRAY<STRING>", _extract_all),
        "A group (by default 1) of every match.",
        "regexp_extract_all('100-200, 300-400', '(\\d+)-(\\d+)') = ['100', '300']",
        _TEXTS,
    ),
    Function(
        "regexp_substr",
        "text pattern",
        _guarded("STRING", _extract),
        "The first match; NULL if there is none.",
        "regexp_substr('a1b22', '[0-9]+') = '1'",
        _TEXT,
    ),
)


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
    """Return ``pattern`` with Rust's meaning: lines end only at a line feed, and ``$`` is the very end."""
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
    """Return False for what no engine accepts: unbalanced brackets, a repetition of nothing."""
    return _python(pattern) is not None


def groups(pattern: str) -> int | None:
    """Return the number of groups of a pattern, if it is known."""
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
    """Return a pattern argument for Java: literals are translated, others get the alphabet and the flags as a
    prefix."""
    chosen = literal_text(flags) if flags is not None else ""
    if chosen is None:
        raise UnsupportedSql("the flags of a regular expression must be a text literal", "such as 'i'")
    written = literal_text(arg)
    if written is not None:
        return exp.Literal.string(java(written, chosen))
    return fill("concat({1}, {0})", [arg, exp.Literal.string(java("\\d.", chosen).removesuffix("\\d."))])


def invalid(args: Args, place: int = 1) -> bool:
    """Return whether the pattern is an invalid literal: the result is then NULL."""
    written = literal_text(args[place])
    return written is not None and not is_valid(written)
