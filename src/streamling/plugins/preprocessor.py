"""Preprocessors: rewrite the text of a pipeline file before it is read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any


class Preprocessor(ABC):
    """Runs when its id is in `plugin.preprocessor_ids`, in that order, after the check for nodes nobody reads and
    before everything else. One instance per reading of a file."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        #: what `plugin.preprocessor_options` has under its id, and what stands there for all
        self.options = options

    @abstractmethod
    def rewrite(self, text: str) -> str:
        """The YAML text to read instead of ``text``; the same text leaves lines and columns of mistakes right.
        Raise `StreamlingError.user` for what cannot be rewritten."""
