"""“Did you mean …?”"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def closest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that ``word`` is probably a misspelling of; case-insensitive."""
    by_folded = {name.casefold(): name for name in known}
    matches = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.7)
    return by_folded[matches[0]] if matches else None


def did_you_mean(word: str, known: Iterable[str], otherwise: str | None = None) -> str | None:
    """Return a remedy for an unknown word."""
    match = closest(word, known := list(known))
    return f"did you mean '{match}'?" if match is not None else otherwise


def listing(names: Iterable[str]) -> str:
    """Return ``a, b, c``, or ``none``."""
    return ", ".join(names) or "none"
