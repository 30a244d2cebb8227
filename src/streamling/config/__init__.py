"""The application's configuration: built-in defaults < `config.yaml` < environment."""

from streamling.config.load import load_config
from streamling.config.model import AppConfig, connection_key

__all__ = ["AppConfig", "connection_key", "load_config"]
