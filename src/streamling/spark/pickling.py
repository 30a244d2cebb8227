"""Sends classes to Spark's Python workers."""

from __future__ import annotations

import sys

#: prefix of module names of plugin files, which cannot be imported elsewhere
FILE_MODULE = "streamling_plugin_"


def send_by_value(kind: type) -> None:
    """Pickle classes of plugin files by value, because workers cannot import their modules."""
    from pyspark import cloudpickle

    for base in kind.__mro__:
        if base.__module__.startswith(FILE_MODULE):
            cloudpickle.register_pickle_by_value(sys.modules[base.__module__])  # type: ignore[no-untyped-call]
