"""The application's configuration: built-in defaults < `config.yaml` < environment."""

from streamling.config.load import load_config
from streamling.config.model import AppConfig

__all__ = ["AppConfig", "load_config"]
