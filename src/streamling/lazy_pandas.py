"""Delays the import of pandas until it is used.

PySpark and pyarrow import pandas whenever it is installed, only to recognise its objects: 0.5 to 1 s per start, and
PySpark warns about pandas 3. The development services bring it along, because `chdb` requires it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import FrameType, ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.abc import Loader
else:
    # `importlib.abc` imports `random`. With `python -m`, this module runs while the working directory is on the path,
    # where a file random.py may be.
    Loader = object

#: they import pandas on behalf of their callers
_INTERMEDIARIES = frozenset({"importlib", "pyarrow", "py4j", "pyspark"})


def delay_pandas() -> None:
    """Refuse pandas from now on to this package and to what PySpark and pyarrow do for it; all others get it."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _PandasFinder())
    # a plugin that uses pandas works: the warning is about functions of PySpark that nothing here calls
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


class _PandasFinder:
    def __init__(self) -> None:
        self._refused_to_pyarrow = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        callers = [package for package in _packages(sys._getframe(1)) if package != "importlib"]
        if next((package for package in callers if package not in _INTERMEDIARIES), None) == "streamling":
            # pyarrow's compiled modules have no frames: its callers seem to import pandas
            self._refused_to_pyarrow |= callers[0] != "pyspark"
            raise ModuleNotFoundError("Streamling does not use pandas", name=fullname)
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None and self._refused_to_pyarrow:
            spec.loader = _PandasLoader(spec.loader)
        return spec


class _PandasLoader(Loader):
    """Makes pyarrow look for pandas again: it does so only once, and would not recognise the objects of a plugin."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        _ = import_module("pyarrow.lib")._pandas_api.pd


def _packages(frame: FrameType | None) -> Iterator[str]:
    """Yield the packages of the code that is running, innermost first."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", "")).partition(".")[0]
        frame = frame.f_back
