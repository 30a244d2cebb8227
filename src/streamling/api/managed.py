"""What the objects of the Python API do at the end of a ``with`` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from streamling.errors import StreamlingError


class Managed(ABC):
    """A context manager that ends at the end of its block. An error of the block is more important than a failure to
    end, which is often its consequence."""

    @abstractmethod
    def _end(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        except StreamlingError:
            if error is None:
                raise
