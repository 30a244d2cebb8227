"""`streamling`: the group of commands, and the one place where errors become text and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

import click

from streamling import __version__
from streamling.cli.errors import ExitCode, exit_code, render

#: command → module that defines it under the same name, and the line `--help` shows without importing it
_COMMANDS = {
    "run": ("streamling.cli.run", "Run a pipeline file (the default command)."),
    "validate": ("streamling.cli.run", "Check a pipeline file without running it."),
    "plan": ("streamling.cli.plan", "Show what would run: flows, segments, placement, Spark plan."),
    "new": ("streamling.cli.new", "Write a first pipeline with data into a new folder."),
    "schema": ("streamling.cli.schema", "Print the JSON Schema of the pipeline file."),
    "state": ("streamling.cli.state", "Look at, save or forget what a pipeline remembers."),
    "doctor": ("streamling.cli.doctor", "Tell what this machine has, lacks, and how to fix it."),
    "plugins": ("streamling.cli.plugins", "List the node types: built-ins and plugins."),
    "completion": ("streamling.cli.completion", "Print the script that completes commands in your shell."),
    "bench": ("streamling.cli.bench", "Measure this machine: start-up, throughput, memory."),
}


class Commands(click.Group):
    """Imports a command's module only when it is called: `validate` must not pay for the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[name][0]), name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """``streamling FILE`` and ``streamling --validate FILE`` mean ``streamling run …``."""
        own = {"--help", "-h", "--version"}
        if not (args and (args[0] in _COMMANDS or args[0] in own)):
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help) for name, (_, help) in _COMMANDS.items()])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`streamling PIPELINE.yaml` is short for `streamling run PIPELINE.yaml`. "
    "Exit codes: 0 finished or drained, 1 failed while running, 2 wrong usage, 78 bad pipeline or configuration.",
)
@click.version_option(__version__, prog_name="streamling")
def cli() -> None:
    """Streamling: data from sources through SQL to sinks, at least once, from one YAML file."""


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is returned, errors are printed once."""
    debug = "--debug" in (sys.argv[1:] if args is None else args)
    try:
        result = cli.main(args=args and list(args), prog_name="streamling", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return ExitCode.OK  # whoever read our output has seen enough
    except Exception as error:
        print(render(error, debug=debug), file=sys.stderr)
        return exit_code(error)
    return result if isinstance(result, int) else ExitCode.OK
