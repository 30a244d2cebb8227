"""The web console: static pages that read the HTTP API of the process that serves them."""

from streamling.serve.console.app import is_console_path, mount_console

__all__ = ["is_console_path", "mount_console"]
