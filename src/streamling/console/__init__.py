"""The web console: static pages that read the HTTP API of the process that serves them."""

from streamling.console.app import PATH, View, mount_console

__all__ = ["PATH", "View", "mount_console"]
