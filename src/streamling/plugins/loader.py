"""Finds plugins: classes of installed packages (entry points) and of files on `plugin.path`.

A package declares ``[project.entry-points."streamling.plugins"]`` with ``"acme.orders" = "acme.streams:OrdersSource"``.
A file marks its classes with ``@plugin("acme.orders")``. Both end up in the registry under that id.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.plugins.operators import AnySource, FrameSink, FrameTransform, Operator, Sink, Transform
from streamling.plugins.registry import Registry

GROUP = "streamling.plugins"

_ID = "__streamling_plugin_id__"

_KINDS: tuple[tuple[tuple[type, ...], NodeKind], ...] = (
    ((AnySource,), NodeKind.SOURCE),
    ((Transform, FrameTransform), NodeKind.TRANSFORM),
    ((Sink, FrameSink), NodeKind.SINK),
)

C = TypeVar("C", bound=type[Operator[Any]])


def plugin(id: str) -> Callable[[C], C]:
    """Make an operator class of a plugin file available as ``type: id``."""

    def mark(operator: C) -> C:
        setattr(operator, _ID, id)
        return operator

    return mark


def load_plugins(registry: Registry, path: str | Path | None) -> Registry:
    """Register everything that is installed and everything below ``path`` (a file or a folder)."""
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        _register(registry, entry.name, _guarded(f"plugin '{entry.name}' ({entry.value})", entry.load))
    for file in _files(path):
        module = _guarded(f"plugin file {file}", lambda file=file: _import(file))
        for operator in _marked(module):
            _register(registry, getattr(operator, _ID), operator)
    return registry


def _register(registry: Registry, id: str, operator: Any) -> None:
    kind = next((kind for bases, kind in _KINDS if isinstance(operator, type) and issubclass(operator, bases)), None)
    if kind is None:
        raise StreamlingError.user(
            f"plugin '{id}': {operator!r} is no source, transform or sink",
            remedy="derive it from Source, Transform or Sink of streamling.plugins",
        )
    registry.register(kind, id, operator)


def _files(path: str | Path | None) -> list[Path]:
    if path is None:
        return []
    root = Path(path)
    if root.is_file():
        return [root]
    if root.is_dir():
        return sorted(file for file in root.glob("*.py") if not file.name.startswith(("_", ".")))
    raise StreamlingError.user(f"plugin.path: {root} does not exist", remedy="name a Python file or a folder of them")


def _import(file: Path) -> ModuleType:
    """The module in ``file``, under a name of its own; executors get its classes by value."""
    name = f"streamling_plugin_{file.stem}"
    spec = spec_from_loader(name, SourceFileLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _marked(module: ModuleType) -> Iterator[Any]:
    for value in vars(module).values():
        if isinstance(value, type) and _ID in vars(value) and value.__module__ == module.__name__:
            yield value


def _guarded(what: str, load: Callable[[], Any]) -> Any:
    try:
        return load()
    except Exception as error:
        raise StreamlingError(f"{what} could not be loaded", internal=False, cause=error) from error
