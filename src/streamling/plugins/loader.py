"""Finds plugins: classes of installed packages (entry points) and of files on `plugin.path`.

A package declares ``[project.entry-points."streamling.plugins"]`` with ``"acme.orders" = "acme.streams:OrdersSource"``.
A file marks its classes with ``@plugin("acme.orders")``. Both end up in the registry under that id.
"""

from __future__ import annotations

import ast
import inspect
import sys
import traceback
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from streamling.errors import InvalidPipeline, Problem, StreamlingError, exit_sentence
from streamling.pipeline.model import NodeKind
from streamling.plugins.operators import Operator
from streamling.plugins.preprocessor import Preprocessor
from streamling.plugins.registry import Registry
from streamling.spark.pickling import FILE_MODULE
from streamling.sql.user_functions import SqlFunction

GROUP = "streamling.plugins"

#: endings of the plugins of the Rust implementation
_NATIVE = frozenset({".so", ".dylib", ".dll"})
_IN_PYTHON = "write the plugin as a Python class; `streamling plugins new` creates one"

_ID = "__streamling_plugin_id__"

C = TypeVar("C", bound=type[Operator[Any]] | type[Preprocessor] | type[SqlFunction])


def plugin(id: str) -> Callable[[C], C]:
    """Make a class of a plugin file available under ``id``: an operator as ``type: id``."""

    def mark(kind: C) -> C:
        setattr(kind, _ID, id)
        return kind

    return mark


def kind_of(operator: object) -> NodeKind:
    """Return whether ``operator`` is the class of a source, a transform or a sink."""
    if isinstance(operator, type) and issubclass(operator, Operator) and operator.node_kind is not None:
        return operator.node_kind
    raise StreamlingError.user(
        f"{operator!r} is not a source, transform or sink",
        remedy="derive it from Source, Transform or Sink of streamling.plugins",
    )


class Plugins:
    """Plugins that are installed or in ``path``, a file or a folder. Importing a plugin runs its code, so each is
    imported only when it is used."""

    def __init__(self, registry: Registry, path: str | Path | None) -> None:
        self._registry = registry
        self._path = path
        self._loaded: set[EntryPoint | Path] = set()

    def load_all(self) -> None:
        """Import all of them; raises `InvalidPipeline` with everything that could not be loaded."""
        self._load(lambda ids: True)

    def load_named(self, text: str) -> None:
        """Import those whose id occurs in ``text``, and files whose ids cannot be known without importing them."""
        folded = text.casefold()  # function names are case-insensitive
        self._load(lambda ids: any(id.casefold() in folded for id in ids))

    def _load(self, is_wanted: Callable[[Collection[str]], bool]) -> None:
        loading = _Loading(self._registry)
        declared: set[str] = set()
        for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
            declared.add(entry.name)
            if entry not in self._loaded and is_wanted((entry.name,)):
                self._loaded.add(entry)
                loading.add_entry_point(entry)
        self._registry.native_libraries = _native_libraries(self._path)
        for file in _files(self._path):
            ids = declared_ids(file)
            declared |= ids or frozenset()
            if file not in self._loaded and (ids is None or is_wanted(ids)):
                self._loaded.add(file)
                loading.add_file(file)
        self._registry.declared = frozenset(declared)
        if loading.problems:
            raise InvalidPipeline(loading.problems)


class _Loading:
    """Loads plugins one by one and collects the problems."""

    def __init__(self, registry: Registry) -> None:
        self.problems: list[Problem] = []
        self._registry = registry
        #: where each plugin of an installed package comes from: package and file
        self._installed: dict[str, tuple[str, Path | None]] = {}

    def add_entry_point(self, entry: EntryPoint) -> None:
        origin = f"package {entry.dist.name}" if entry.dist else entry.value
        try:
            operator = entry.load()
        except (Exception, SystemExit) as error:
            message = f"plugin '{entry.name}' of {origin} could not be loaded: {_sentence(error)}"
            self.problems.append(Problem(message, remedy="update or uninstall the package"))
        else:
            self._installed[entry.name] = origin, _file(operator)
            self._register(entry.name, operator, Problem(f"plugin '{entry.name}' of {origin}"))

    def add_file(self, file: Path) -> None:
        try:
            module = _import(file)
        except (Exception, SystemExit) as error:
            line, column = _place(error, file)
            message = f"the plugin file could not be loaded: {_sentence(error)}"
            self.problems.append(Problem(message, str(file), line, column))
        else:
            for id, operator in _marked(module):
                self._add_marked(id, operator, file)

    def _add_marked(self, id: str, operator: Any, file: Path) -> None:
        origin = Problem(f"plugin '{id}'", str(file), _line(operator))
        if id not in self._installed:
            self._register(id, operator, origin)
            return
        package, installed = self._installed[id]
        if installed != file.resolve():  # installed with `pip install -e`, it is the same one
            message = f"{origin.message}: {package} has it, too"
            remedy = "remove plugin.path, or uninstall the package"
            self.problems.append(replace(origin, message=message, remedy=remedy))

    def _register(self, id: str, operator: Any, origin: Problem) -> None:
        try:
            if missing := sorted(getattr(operator, "__abstractmethods__", ())):
                raise StreamlingError.user(f"{operator.__name__} does not implement {', '.join(missing)}")
            if isinstance(operator, type) and issubclass(operator, Preprocessor):
                self._registry.register_preprocessor(id, operator)
            elif isinstance(operator, type) and issubclass(operator, SqlFunction):
                self._registry.register_function(id, operator)
            else:
                self._registry.register(kind_of(operator), id, operator)
        except StreamlingError as error:
            self.problems.append(replace(origin, message=f"{origin.message}: {error}", remedy=error.remedy))


def _files(path: str | Path | None) -> list[Path]:
    if path is None:
        return []
    root = Path(path)
    if root.suffix in _NATIVE:
        message = f"plugin.path: '{root}' is a native library, which only the Rust implementation can load"
        raise InvalidPipeline([Problem(message, remedy=_IN_PYTHON)])
    if root.is_file():
        return [root]
    if root.is_dir():
        return sorted(file for file in root.glob("*.py") if not file.name.startswith(("_", ".")))
    remedy = "set it to a Python file or a folder of them, or remove it"
    raise InvalidPipeline([Problem(f"plugin.path: '{root}' does not exist", remedy=remedy)])


def _native_libraries(path: str | Path | None) -> tuple[str, ...]:
    """Return the names of native libraries. They stay where both implementations use one folder; a pipeline that needs
    one is refused."""
    if path is None or not Path(path).is_dir():
        return ()
    return tuple(sorted(file.name for file in Path(path).iterdir() if file.suffix in _NATIVE))


def _import(file: Path) -> ModuleType:
    """Return the module in ``file``, under a name that no other file has."""
    name = f"{FILE_MODULE}{file.stem}_{zlib.crc32(str(file.resolve()).encode()):08x}"
    spec = spec_from_loader(name, SourceFileLoader(name, str(file)))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # pydantic and dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _marked(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for value in vars(module).values():
        if _ID in getattr(value, "__dict__", {}) and value.__module__ == module.__name__:
            yield vars(value)[_ID], value


# ── errors of plugin files ───────────────────────────────────────────────────────────────────────────────────


def _sentence(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return exit_sentence(error)
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}".rstrip(": ")


def _place(error: BaseException, file: Path) -> tuple[int, int]:
    """Return the line of ``file`` that the error came from."""
    if isinstance(error, SyntaxError) and error.filename == str(file):
        return error.lineno or 0, error.offset or 0
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno or 0 for frame in reversed(frames) if frame.filename == str(file)), 0), 1


def _file(operator: Any) -> Path | None:
    try:
        return Path(inspect.getfile(operator)).resolve()
    except (OSError, TypeError):
        return None


def _line(operator: Any) -> int:
    try:
        return inspect.getsourcelines(operator)[1]
    except (OSError, TypeError):
        return 0


# ── the ids that a file declares, found without running it ───────────────────────────────────────────────────────


def declared_ids(file: Path) -> frozenset[str] | None:
    """Return the ids in the ``@plugin("…")`` decorators of ``file``; None if they cannot be known without running
    it."""
    try:
        tree = ast.parse(file.read_bytes(), str(file))
    except (OSError, SyntaxError, ValueError):
        return None
    names = {"plugin", *_aliases(tree)}
    ids = set()
    for call in _calls(tree):
        called = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
        if called not in names:
            continue
        id = call.args[0] if call.args else next((word.value for word in call.keywords if word.arg == "id"), None)
        if not isinstance(id, ast.Constant) or not isinstance(id.value, str):
            return None
        ids.add(id.value)
    return frozenset(ids)


def _aliases(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.name == "plugin" and alias.asname)


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))
