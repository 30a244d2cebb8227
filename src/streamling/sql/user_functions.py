"""SQL functions of plugins."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa


class SqlFunction(ABC):
    """A function of whole Arrow arrays. Its id is its name in SQL: lower-case letters, digits and ``_``.

    Spark's Python workers run it, which costs a copy of the arguments and of the result; Spark's own functions are
    faster. One instance is created and sent to the workers: keep it small.
    """

    #: the types of the arguments; SQL values are cast to them
    argument_types: ClassVar[tuple[pa.DataType, ...]]
    return_type: ClassVar[pa.DataType]

    @abstractmethod
    def call(self, *arguments: pa.Array) -> pa.Array:
        """Return the result, with as many rows as each argument. Must depend only on the arguments: the same rows may
        be replayed."""
