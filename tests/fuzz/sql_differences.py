"""The declared differences from DataFusion: rules over constructs and types, as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from streamling.sql.library import registry
from tests.fuzz.sql_engines import Outcome
from tests.fuzz.sql_grammar import Expr

FILE = Path(__file__).parents[1] / "corpus" / "sql" / "differences.yaml"


@dataclass(frozen=True)
class Rule:
    rule: str
    constructs: tuple[str, ...]
    types: tuple[str, ...]
    outcome: str
    reason: str
    #: types of which another operand has to be
    beside: tuple[str, ...] = ()
    error: str = ""

    def allows(self, outcome: Outcome) -> bool:
        if outcome.verdict != self.outcome or self.error not in (outcome.refused or outcome.stopped):
            return False
        return any(self._is_about(part) for part in outcome.expr.walk())

    def _is_about(self, part: Expr) -> bool:
        kinds = {part.kind, *(arg.kind for arg in part.args)}
        if part.construct not in self.constructs or kinds.isdisjoint(self.types):
            return False
        return not self.beside or not kinds.isdisjoint(self.beside)


def _rules() -> list[Rule]:
    written = yaml.safe_load(FILE.read_text())
    return [
        Rule(**{key: tuple(value) if isinstance(value, list) else value for key, value in rule.items()})
        for rule in written
    ]


RULES = _rules()


def declared(outcome: Outcome) -> str | None:
    """The rule that an outcome falls under, or the function that is declared to differ (docs/sql-functions.md)."""
    if outcome.verdict == "differs":
        for part in outcome.expr.walk():
            function = registry.find(part.construct)
            if function is not None and function.differs:
                return f"{function.name}()"
    return next((rule.rule for rule in RULES if rule.allows(outcome)), None)
