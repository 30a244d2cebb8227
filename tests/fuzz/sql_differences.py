"""The declared differences from DataFusion: rules over constructs and types, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Formatter

import yaml

from tests.fuzz.sql_engines import Engines, Outcome
from tests.fuzz.sql_grammar import Expr

FILE = Path(__file__).parents[1] / "corpus" / "sql" / "differences.yaml"


@dataclass(frozen=True)
class Rule:
    rule: str
    constructs: tuple[str, ...]
    types: tuple[str, ...]
    outcome: tuple[str, ...]
    reason: str
    #: types that another operand must have
    beside: tuple[str, ...] = ()
    #: types that the result must have
    result: tuple[str, ...] = ()
    error: tuple[str, ...] = ("",)
    #: type of an operand → its replacement in the expression that proves the rule to be the whole reason
    operands: Mapping[str, str] = field(default_factory=dict)
    #: the same for constructs
    instead: Mapping[str, str] = field(default_factory=dict)
    #: whether it runs without the rows that fail in DataFusion
    where: bool = False

    def covers(self, outcome: Outcome) -> bool:
        found = outcome.refused or outcome.stopped
        if outcome.verdict not in self.outcome or not any(error in found for error in self.error):
            return False
        return any(self._is_about(part) for part in outcome.expr.walk())

    def without(self, expression: Expr) -> Expr | None:
        """The expression without the reason of the difference; None if the rule has no such form."""
        return expression.replaced(self._taken_out) if self.operands or self.instead else None

    def _taken_out(self, part: Expr) -> Expr:
        if not self._is_about(part):
            return part
        if part.construct in self.instead:
            return replace(part, template=self.instead[part.construct])
        return replace(part, args=tuple(map(self._wrapped, part.args)))

    def _wrapped(self, operand: Expr) -> Expr:
        template = self.operands.get(operand.kind)
        return operand if template is None else Expr("without", operand.kind, template, (operand,))

    def _is_about(self, part: Expr) -> bool:
        kinds = {part.kind, *(arg.kind for arg in part.args)}
        if part.construct not in self.constructs or kinds.isdisjoint(self.types):
            return False
        if (self.result and part.kind not in self.result) or len(part.args) < self._operands_of(part.construct):
            return False
        return not self.beside or not kinds.isdisjoint(self.beside)

    def _operands_of(self, construct: str) -> int:
        """The number of operands of the form that replaces ``construct``."""
        numbers = [int(name) for _, name, _, _ in Formatter().parse(self.instead.get(construct, "")) if name]
        return max(numbers, default=-1) + 1


def _rules() -> list[Rule]:
    written = yaml.safe_load(FILE.read_text())
    lists = ("constructs", "types", "beside", "result", "outcome", "error")
    return [Rule(**{key: tuple(value) if key in lists else value for key, value in rule.items()}) for rule in written]


RULES = _rules()
_DIFFERENT = ("differs", "stops", "refused")


def declared(outcome: Outcome, engines: Engines | None = None, used: tuple[Rule, ...] = ()) -> str | None:
    """The rule that a difference falls under. With ``engines`` its reason is taken out of the expression, which then
    has to be the same in both, or differ by another rule."""
    for rule in RULES:
        if rule in used or not rule.covers(outcome):
            continue
        if outcome.verdict == "stops" and outcome.differences_before_it_stops and "differs" not in rule.outcome:
            continue
        if engines and rule.where and outcome.failing and not engines.here.runs_without_failing(outcome):
            continue
        changed = rule.without(outcome.expr) if engines else None
        if engines is None or changed is None:
            return rule.rule
        [again] = engines.ask([changed])
        if again.verdict not in _DIFFERENT or declared(again, engines, (*used, rule)):
            return rule.rule
    return None
