"""`completion bash|zsh|fish`: the script that completes commands, options, pipeline files and pipelines of a server."""

from __future__ import annotations

import sys

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import COMPLETION_VARIABLE

_INSTALL = {
    "bash": "echo 'eval \"$(streamling completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(streamling completion zsh)\"' >> ~/.zshrc",
    "fish": "streamling completion fish > ~/.config/fish/completions/streamling.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTALL)))
def completion(shell: str) -> int:
    """Print the completion script for SHELL. It completes commands, options, *.yaml files where a pipeline file is
    expected, and the names of pipelines of a server.

    \b
    Install it once, then open a new shell:
      echo 'eval "$(streamling completion bash)"' >> ~/.bashrc
      echo 'eval "$(streamling completion zsh)"' >> ~/.zshrc
      streamling completion fish > ~/.config/fish/completions/streamling.fish

    \b
    Exit codes:
      0   done
      2   wrong usage
    """
    from click.shell_completion import get_completion_class

    from streamling.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "streamling", COMPLETION_VARIABLE)
    # not script.source(): it starts bash to check its version
    click.echo(script.source_template % script.source_vars())
    if sys.stdout.isatty():
        click.echo(f"To install it: {_INSTALL[shell]}", err=True)
    return ExitCode.OK
