"""`AppConfig`: all settings with default and meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import create_model

from streamling.builtins import builtins
from streamling.pipeline.config.core import CoreConfig

if TYPE_CHECKING:

    class AppConfig(CoreConfig):
        """The configuration of the application, created by `load_config`; ``AppConfig()`` has the defaults."""

else:
    # reversed: pydantic lists the fields of the last base first, and the order of the registry is wanted
    AppConfig = create_model(
        "AppConfig",
        __base__=tuple(each.load(each.config) for each in reversed(builtins()) if each.config),
        __module__=__name__,
        __doc__="All settings of the runtime and of all connectors.",
    )
