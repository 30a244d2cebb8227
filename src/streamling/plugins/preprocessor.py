"""Preprocessors rewrite the text of a pipeline file before it is parsed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


class Preprocessor(ABC):
    """Runs if its id is in `plugin.preprocessor_ids`, in that order, after the check for nodes without consumers and
    before everything else. One instance is created each time a file is read."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        #: the entries of `plugin.preprocessor_options` for its id, and those for all preprocessors
        self.options = options

    @abstractmethod
    def rewrite(self, text: str) -> str:
        """Return the YAML text to parse instead of ``text``. If the text is unchanged, errors have the right line and
        column. Raise `StreamlingError.user` for what cannot be rewritten."""
