"""`AppConfig`: every setting of the application, its default, its meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import create_model

from streamling.builtins import builtins
from streamling.config.core import CoreConfig

if TYPE_CHECKING:

    class AppConfig(CoreConfig):
        """The application's configuration. Made by `load_config`; ``AppConfig()`` holds the defaults."""

else:
    # the last base comes first: fields are listed in the order of the registry
    AppConfig = create_model(
        "AppConfig",
        __base__=tuple(each.load(each.config) for each in reversed(builtins()) if each.config),
        __module__=__name__,
        __doc__="Every setting of the runtime and of all connectors.",
    )
