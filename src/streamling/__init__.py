"""Streamling: sources → transforms → sinks in one YAML file, at least once, on Spark."""

from typing import TYPE_CHECKING, Any

from streamling.lazy_pandas import delay_pandas

if TYPE_CHECKING:
    from streamling.api.run import Run
    from streamling.api.runtime import Runtime
    from streamling.connectors.memory import MemoryInput
    from streamling.engine.run.status import RunStatus
    from streamling.errors import InvalidPipeline, StreamlingError

__version__ = "0.1.0"

__all__ = ["InvalidPipeline", "MemoryInput", "Run", "RunStatus", "Runtime", "StreamlingError", "__version__"]

_MODULES = {
    "InvalidPipeline": "streamling.errors",
    "MemoryInput": "streamling.connectors.memory",
    "Run": "streamling.api.run",
    "RunStatus": "streamling.engine.run.status",
    "Runtime": "streamling.api.runtime",
    "StreamlingError": "streamling.errors",
}

delay_pandas()


def __getattr__(name: str) -> Any:
    # imported lazily: every command imports this package first
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
