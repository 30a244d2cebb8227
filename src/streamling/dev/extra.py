"""Packages that only local services need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from streamling.errors import StreamlingError


def needed(module: str, package: str | None = None) -> Any:
    """The ``module``, or an error that tells how to install what it belongs to."""
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(package or module) from error


def missing(package: str) -> StreamlingError:
    return StreamlingError.user(
        f"local services need the package {package}, which is not installed",
        remedy="pip install 'streamling[dev]'",
    )
