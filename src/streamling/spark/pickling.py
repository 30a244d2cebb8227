"""Classes on their way to Spark's Python workers."""

from __future__ import annotations

import sys

#: how the names of modules from plugin files begin; nobody else can import them
FILE_MODULE = "streamling_plugin_"


def send_by_value(kind: type) -> None:
    """Workers cannot import the modules of plugin files: let pickles carry what comes from there."""
    from pyspark import cloudpickle

    for base in kind.__mro__:
        if base.__module__.startswith(FILE_MODULE):
            cloudpickle.register_pickle_by_value(sys.modules[base.__module__])  # type: ignore[no-untyped-call]
