"""Random SQL expressions, as trees that say which construct met which types. tests/corpus/sql/grammar.txt lists what
they are made of; choices between two values, casts and literals are added here."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fuzz.sql_columns import DECIMALS, INTS, SECOND

FILE = Path(__file__).parents[1] / "corpus" / "sql" / "grammar.txt"

_HEADER = re.compile(r"\[(\w+)(?: (\w+))?\]")
_LITERALS = re.compile(r"<(\w+) (\w+)> (.+)")
_OPERAND = re.compile(r"\{([^}]+)\}")
_NAMED = re.compile(r"(.+) := (.+)")
_OPERATOR = re.compile(r"\(\{[^}]+\} ([^{}]+) \{[^}]+\}\)")
_CALL = re.compile(r"(\w+)\(")

_NAMES = {
    "i8": "TINYINT", "i16": "SMALLINT", "i32": "INT", "i64": "BIGINT", "u8": "TINYINT UNSIGNED",
    "u16": "SMALLINT UNSIGNED", "u32": "INT UNSIGNED", "f32": "FLOAT", "f64": "DOUBLE", "text": "TEXT",
    "bool": "BOOLEAN", "day": "DATE", "ts": "TIMESTAMP", "tz": "TIMESTAMP WITH TIME ZONE", "tm": "TIME", "bin": "BYTEA",
    "d10_2": "DECIMAL(10, 2)", "d20_4": "DECIMAL(20, 4)", "d38_18": "DECIMAL(38, 18)", "d38_0": "DECIMAL(38, 0)",
    "li": "BIGINT[]", "lt": "TEXT[]",
}  # fmt: skip
_NUMBERS = ("int", "dec", "f64", "f32")
_CASTS: dict[str, tuple[Sequence[str], Sequence[str]]] = {
    "int": ((*INTS, "i64", "i32"), (*_NUMBERS, "text", "text", "bool", "u64")),
    "dec": (DECIMALS, ("int", "f64", "text", "dec", "u64", "f32")),
    "f64": (("f64",), (*_NUMBERS, "text", "u64", "bool")),
    "f32": (("f32",), (*_NUMBERS, "text")),
    "text": (("text",), (*_NUMBERS, "bool", "day", "ts", "text", "tm", "tz", "u64", "bin")),
    "bool": (("bool",), ("int", "text", "f64", "bool")),
    "day": (("day",), ("ts", "day", "tz", "text")),
    "ts": (("ts",), ("ts", "day", "tz", "text")),
    "tz": (("tz",), ("ts", "day", "tz", "text")),
    "tm": (("tm",), ("ts", "tm", "text")),
    "bin": (("bin",), ("text", "bin")),
    "li": (("li",), ("li",)),
    "lt": (("lt",), ("li", "lt")),
}
_WRITTEN = {
    "int": ("0", "1", "2", "3", "7", "10", "100"),
    "f64": ("0.5", "1.5", "2.0", "10.25", "1e3"),
    "text": tuple(f"'{text}'" for text in ("", "a", "b ", "A", "ż", "_", "12", "x.y", "ß", "😀")),
    "bool": ("true", "false"),
    "day": ("DATE '2024-02-29'",),
    "ts": ("TIMESTAMP '2024-02-29 01:02:03'",),
}
_COLUMNS = {"int": INTS, "dec": DECIMALS}
#: kinds whose values are compared with each other
_COMPARED = ("int", "int", "dec", "f64", "f32", "text", "text", "day", "ts", "tz", "tm", "bool", "bin")
_UNORDERED = ("li", "lt", "ll", "ls", "lx", "st", "sn", "mp", "ml", "bool", "span")
#: kinds of whole expressions
_WHOLE = (
    *("int", "int", "int", "dec", "dec", "f64", "f32", "text", "text", "text", "bool", "bool", "bool"),
    *("day", "ts", "ts", "tz", "tm", "span", "bin", "li", "lt", "ll", "st", "mp"),
)


@dataclass(frozen=True)
class Expr:
    """``construct`` names what it is: ``+``, ``CAST AS text``, ``round``, ``column``; ``template`` has a numbered place
    for each operand."""

    construct: str
    kind: str
    template: str
    args: tuple[Expr, ...] = ()

    @property
    def sql(self) -> str:
        return self.template.format(*(arg.sql for arg in self.args))

    def walk(self) -> Iterator[Expr]:
        yield self
        for arg in self.args:
            yield from arg.walk()

    def replaced(self, change: Callable[[Expr], Expr]) -> Expr:
        """The tree with every node changed, from the leaves up."""
        return change(replace(self, args=tuple(arg.replaced(change) for arg in self.args)))


@dataclass(frozen=True)
class Template:
    construct: str
    kind: str
    text: str
    #: what each place accepts: the kinds to choose from
    operands: tuple[str, ...]


@dataclass
class Templates:
    groups: dict[str, list[list[Template]]] = field(default_factory=lambda: defaultdict(list))
    literals: dict[str, tuple[str, list[str]]] = field(default_factory=dict)


def _templates() -> Templates:
    found, kind = Templates(), ""
    for line in FILE.read_text().splitlines():
        if header := _HEADER.fullmatch(line):
            kind = header[2] or header[1]
            found.groups[header[1]].append([])
            group = found.groups[header[1]][-1]
        elif literals := _LITERALS.fullmatch(line):
            found.literals[literals[1]] = (literals[2], literals[3].split(" | "))
        elif line and not line.startswith("#"):
            group.append(_template(line, kind))
    return found


def _template(line: str, kind: str) -> Template:
    named = _NAMED.fullmatch(line)
    text = named[2] if named else line
    found = named or _OPERATOR.fullmatch(line) or _CALL.match(line)
    assert found is not None, line
    operands = tuple(_OPERAND.findall(text))
    numbers = iter(range(len(operands)))
    return Template(found[1], kind, _OPERAND.sub(lambda _: f"{{{next(numbers)}}}", text), operands)


TEMPLATES = _templates()


class Grammar:
    """Generates expressions of a given kind: ``int``, ``dec``, ``f32``, ``f64``, ``text``, ``bool``, ``day``, ``ts``,
    …"""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def expressions(self, count: int) -> list[Expr]:
        """This many different expressions."""
        found: dict[str, Expr] = {}
        while len(found) < count:
            expression = self.expression()
            found[expression.sql] = expression
        return list(found.values())

    def expression(self) -> Expr:
        if self.chance.random() < 0.03:
            return self._made("curve", 1)
        if self.chance.random() < 0.02:
            return self._made("since_1970", 2)
        return self.make(self.chance.choice(_WHOLE), self.chance.choice((1, 2, 2, 3)))

    def make(self, kind: str, depth: int) -> Expr:
        if depth <= 0 or self.chance.random() < 0.1:
            return self._leaf(kind)
        if self.chance.random() < 0.12:
            return self._choice(kind, depth)
        groups = len(TEMPLATES.groups.get(kind, ()))
        if kind in _CASTS and self.chance.randrange(groups + 1) == 0:
            return self._cast(kind, depth)
        return self._made(kind, depth) if groups else self._leaf(kind)

    def _made(self, kind: str, depth: int) -> Expr:
        template = self.chance.choice(self.chance.choice(TEMPLATES.groups[kind]))
        same = self.chance.choice(_COMPARED)
        operands = (self._operand(wanted.replace("same", same), depth - 1) for wanted in template.operands)
        made = Expr(template.construct, template.kind, template.text, tuple(operands))
        if made.construct == "-x" and any(part.construct in "&|^" for part in made.walk()):
            return made.args[0]  # DataFusion reads -(a | b) as ~(a | b)
        if made.construct == "^" and made.args[0] == made.args[1]:
            return made.args[0]  # which is 0 in DataFusion, even for NULL
        return replace(made, kind=_kind(made))

    def _operand(self, wanted: str, depth: int) -> Expr:
        if wanted in TEMPLATES.literals:
            kind, choices = TEMPLATES.literals[wanted]
            return Expr("literal", kind, self.chance.choice(choices))
        if wanted.startswith("!"):
            return self._column(wanted[1:])
        return self.make(self.chance.choice(wanted.split("|")), depth)

    def _column(self, kind: str) -> Expr:
        name = self.chance.choice(_COLUMNS.get(kind, (kind,)))
        if name == "span":  # there is no such column
            return Expr("ts - ts", "span", "(ts - ts_2)")
        return Expr("column", name, name + self.chance.choice(("", SECOND)))

    def _leaf(self, kind: str) -> Expr:
        if kind not in _WRITTEN or self.chance.random() < 0.7:
            return self._column(kind)
        return Expr("literal", "i64" if kind == "int" else kind, self.chance.choice(_WRITTEN[kind]))

    def _cast(self, kind: str, depth: int) -> Expr:
        targets, sources = _CASTS[kind]
        word, target = self.chance.choice(("CAST", "CAST", "TRY_CAST")), self.chance.choice(targets)
        value = self.make(self.chance.choice(sources), depth - 1)
        return Expr(f"{word} AS {target}", target, f"{word}({{0}} AS {_NAMES[target]})", (value,))

    def _choice(self, kind: str, depth: int) -> Expr:
        form = self.chance.choice(("CASE", "CASE", "CASE x", "coalesce", "nullif", "greatest", "least", "nvl2"))
        if kind in _UNORDERED and form in ("greatest", "least", "nullif"):
            form = "coalesce"
        values = (self.make(kind, depth - 1), self.make(kind, depth - 1))
        template = f"{form}({{0}}, {{1}})"
        if form in ("CASE", "nvl2"):
            values += (self.make("bool", depth - 1),)
            template = "nvl2({2}, {0}, {1})" if form == "nvl2" else "CASE WHEN {2} THEN {0} ELSE {1} END"
            # DataFusion reads the fields of a NULL struct
            if form == "CASE" and kind not in ("st", "sn") and self.chance.random() < 0.2:
                values, template = (values[0], values[2]), "CASE WHEN {1} THEN {0} END"
        elif form == "CASE x":
            values += (self.make("int", depth - 1), self._leaf("int"))
            template = "CASE {2} WHEN {3} THEN {0} ELSE {1} END"
        return Expr(form, _wider(values[:2]), template, values)


def _kind(made: Expr) -> str:
    """For integers the widest operand, otherwise the kind of the template."""
    return _wider(made.args) if made.kind == "int" else made.kind


def _wider(values: Sequence[Expr]) -> str:
    order = ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "len")
    kinds = [value.kind for value in values]
    if all(kind in order for kind in kinds):
        return max(kinds, key=order.index)
    return kinds[0] if len(set(kinds)) == 1 else _group(kinds[0])


def _group(kind: str) -> str:
    return "int" if kind in INTS else "dec" if kind in DECIMALS else kind
