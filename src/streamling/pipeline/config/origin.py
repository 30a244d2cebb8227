"""Values and their origin, for file and environment."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from streamling.errors import Problem
from streamling.pipeline.document.location import Location
from streamling.pipeline.document.suggest import did_you_mean

log = logging.getLogger("streamling.config")

UNKNOWN_LOCATION = Location()


@dataclass(frozen=True)
class SettingValue:
    """A value from a variable or from a file."""

    value: Any
    variable: str
    location: Location = UNKNOWN_LOCATION

    def problem(self, path: tuple[str, ...], predicate: str, remedy: str | None = None) -> Problem:
        subject = f"the environment variable {self.variable}" if self.variable else ".".join(path)
        location = self.location
        return Problem(f"{subject} {predicate}", location.file, location.line, location.column, remedy)


@dataclass
class Reading:
    """Everything read so far; later sources override earlier ones."""

    values: dict[tuple[str, ...], SettingValue] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    #: names without a value, which change nothing
    empty: dict[tuple[str, ...], Location] = field(default_factory=dict)

    def nested(self, base: dict[str, Any]) -> dict[str, Any]:
        """Return the values as one tree, merged into ``base``."""
        for path, setting_value in self.values.items():
            node = base
            for part in path[:-1]:
                if not isinstance(node.get(part), dict):
                    node[part] = {}
                node = node[part]
            node[path[-1]] = setting_value.value
        return base

    def warn_about_unknown_key(self, name: str, known: Iterable[str], location: Location) -> None:
        """Warn about an unknown key of the file. Its value is not logged: it may be a secret."""
        message = f"unknown setting {name} has no effect"
        log.warning("%s", Problem(message, location.file, location.line, location.column, did_you_mean(name, known)))

    def warn_about_unknown_variable(self, name: str, suggestion: str | None) -> None:
        """Warn about an unknown variable."""
        remedy = f"did you mean '{suggestion}'?" if suggestion else None
        log.warning("%s", Problem(f"unknown environment variable {name} has no effect", remedy=remedy))

    def warn_about_ineffective(self, path: tuple[str, ...], setting_value: SettingValue, why: str) -> None:
        """Warn that a known setting has no effect."""
        log.warning("%s", setting_value.problem(path, f"has no effect: {why}"))
