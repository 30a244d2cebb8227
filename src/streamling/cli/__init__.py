"""The command line. `main` is the entry point; each command is one module, imported when it is called."""

from streamling.cli.main import main

__all__ = ["main"]
