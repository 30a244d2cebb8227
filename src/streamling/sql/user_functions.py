"""Functions for SQL that plugins add."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa


class SqlFunction(ABC):
    """A function of whole Arrow arrays. Its id is its name in SQL: lower-case letters, digits and ``_``.

    Spark's Python workers run it, which costs a copy of the arguments and of the result; what Spark's own functions
    can say is faster. An instance is made once and sent to the workers: keep it small.
    """

    #: the types of the arguments; what SQL gives is cast to them
    argument_types: ClassVar[tuple[pa.DataType, ...]]
    return_type: ClassVar[pa.DataType]

    @abstractmethod
    def call(self, *arguments: pa.Array) -> pa.Array:
        """The result for every row, as many as there are in each argument. Must depend on the arguments alone: the
        same rows may come again."""
