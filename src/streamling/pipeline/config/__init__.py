"""The application's configuration: built-in defaults < `config.yaml` < environment."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamling.pipeline.config.load import load_config
    from streamling.pipeline.config.model import AppConfig

__all__ = ["AppConfig", "load_config"]


def __getattr__(name: str) -> Any:
    # imported lazily: `AppConfig` combines the settings of all connectors, whose modules import this package
    if name == "AppConfig":
        from streamling.pipeline.config.model import AppConfig

        return AppConfig
    if name == "load_config":
        from streamling.pipeline.config.load import load_config

        return load_config
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
