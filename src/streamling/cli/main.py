"""`streamling`: the command group, and the one place that turns errors into text and exit codes."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamling import __version__
from streamling.cli.errors import ExitCode, exit_code, render
from streamling.cli.options import COMPLETION_VARIABLE, unknown_command_error, yaml_completions
from streamling.errors import StreamlingError
from streamling.observe.terminal.streams import safe_streams

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: command → module that defines it under the same name, and its line in `--help`, shown without importing it
_COMMANDS = {
    "run": ("streamling.cli.run", "Run a pipeline file (the default command)."),
    "validate": ("streamling.cli.validate", "Check a pipeline file without running it."),
    "test": ("streamling.cli.test", "Run the tests of pipelines."),
    "preview": ("streamling.cli.preview", "Run a pipeline without its sinks and show rows of every node."),
    "preview-server": ("streamling.cli.preview_server", "Answer preview requests over HTTP."),
    "tap": ("streamling.cli.tap", "Show rows of a node of a running pipeline."),
    "plan": ("streamling.cli.plan", "Show what would run: flows, segments, placement, Spark plan."),
    "new": ("streamling.cli.new", "Create a folder with a first pipeline and data."),
    "schema": ("streamling.cli.schema", "Print the JSON Schema of the pipeline file."),
    "state": ("streamling.cli.state", "Show, back up, restore or reset the state of a pipeline."),
    "dev": ("streamling.cli.dev", "Start and stop local Kafka, schema registry, Postgres and ClickHouse."),
    "doctor": ("streamling.cli.doctor", "Check this machine and say how to fix what is missing."),
    "plugins": ("streamling.cli.plugins", "List the node types: built-ins and plugins."),
    "completion": ("streamling.cli.completion", "Print the completion script for your shell."),
    "secret": ("streamling.cli.secret", "Store secrets for pipeline files, encrypted."),
    "serve": ("streamling.cli.serve", "Run many pipelines in one process, managed over an HTTP API."),
    "apply": ("streamling.cli.apply", "Create or update pipelines of a server from files."),
    "ls": ("streamling.cli.pipelines", "List the pipelines of a server."),
    "describe": ("streamling.cli.pipelines", "Show one pipeline of a server."),
    "logs": ("streamling.cli.pipelines", "Print the log of a pipeline of a server."),
    "pause": ("streamling.cli.lifecycle", "Pause pipelines of a server."),
    "resume": ("streamling.cli.lifecycle", "Let paused pipelines continue."),
    "restart": ("streamling.cli.lifecycle", "Stop pipelines of a server and start them again."),
    "checkpoint": ("streamling.cli.lifecycle", "Store the positions of pipelines of a server now."),
    "delete": ("streamling.cli.lifecycle", "Delete pipelines of a server."),
}
#: the first one of the section about servers in `--help`
_FIRST_SERVER_COMMAND = "serve"
#: names the pipeline file for `streamling` without arguments
FILE_VARIABLE = "STREAMLING__PIPELINE_DEFINITION_LOCATION"
_OWN_OPTIONS = ("--help", "-h", "--version")

_EPILOG = """`streamling PIPELINE.yaml` is short for `streamling run PIPELINE.yaml`; for the options of a
command see `streamling COMMAND --help`.

\b
First steps:
  streamling new shop && cd shop
  streamling run pipeline.yaml

\b
Exit codes:
  0   finished or drained
  1   failed while running
  2   wrong usage
  78  invalid pipeline or configuration
  130 interrupted (Ctrl-C) before anything ran"""


class Commands(click.Group):
    """Imports a command's module only when it is called, so that `validate` does not load the others."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command: click.Command = getattr(import_module(_COMMANDS[name][0]), name.replace("-", "_"))
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Turn ``streamling FILE`` and ``streamling --validate FILE`` into ``streamling run …``, also ``streamling``
        alone if the environment names the file, as in containers; otherwise that prints the help."""
        first = args[0] if args else ""
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)  # completion of the first word: any command or file
        if not args and FILE_VARIABLE not in os.environ:
            args = ["--help"]
        elif first not in _COMMANDS and first not in _OWN_OPTIONS:
            if not ctx.resilient_parsing:
                _reject_misspelt_command(first, ctx)
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **settings: Any) -> click.Context:
        with _ignore_closed_pipe():  # help pages are written while arguments are parsed
            return super().make_context(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        with _ignore_closed_pipe():
            result = super().invoke(ctx)
            if sys.stdout is not None:  # the process may have been started without stdout
                sys.stdout.flush()
            return result

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        lines = [(name, help) for name, (_, help) in _COMMANDS.items()]
        first = list(_COMMANDS).index(_FIRST_SERVER_COMMAND)
        for title, section in (("Commands", lines[:first]), ("Many pipelines on a server", lines[first:])):
            with formatter.section(title):
                formatter.write_dl(section)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        commands = [
            CompletionItem(name, help=help) for name, (_, help) in _COMMANDS.items() if name.startswith(incomplete)
        ]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*commands, *options, *yaml_completions(incomplete)] if incomplete else [*commands, *options]


def _reject_misspelt_command(word: str, ctx: click.Context) -> None:
    """Reject a word that can only be a misspelt command. Anything that may be a file is left to `run`."""
    if not word or word.startswith("-") or "/" in word or "." in word or Path(word).exists():
        return
    raise unknown_command_error(word, list(_COMMANDS), ctx, "there is no file with that name either.")


@contextmanager
def _ignore_closed_pipe() -> Iterator[None]:
    """Treat a closed output pipe (`| head`) as the end, not as an error."""
    try:
        yield
    except BrokenPipeError:
        # Python flushes stdout again on exit, which would raise for the closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(ExitCode.OK) from None


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    subcommand_metavar="PIPELINE.yaml | COMMAND [ARGS]...",
    epilog=_EPILOG,
)
@click.version_option(__version__, prog_name="streamling")
def cli() -> None:
    """Streamling runs data pipelines: one YAML file, from sources through SQL to sinks, with at-least-once delivery."""


#: Allocations between two garbage collections. Imports create hundreds of thousands of objects that live on: Python's
#: default of 700 costs a fifteenth of the start-up time.
_OBJECTS = 100_000


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; errors are printed once."""
    args = sys.argv[1:] if args is None else args
    gc.set_threshold(_OBJECTS)
    # Python's last collection on exit finds nothing and takes 0.1 s
    atexit.register(gc.freeze)
    return run_command(cli, args, "streamling")


def run_command(command: click.Command, args: Sequence[str], name: str) -> int:
    """Run ``command`` as the program ``name`` and return the exit code; errors are printed once."""
    with safe_streams():
        return _run(command, list(args), name)


def _run(command: click.Command, args: list[str], name: str) -> int:
    try:
        result = command.main(args=args, prog_name=name, standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return int(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except SystemExit as error:  # from a plugin or a library; our commands return their exit codes
        if COMPLETION_VARIABLE in os.environ:  # click exits after answering the shell
            return int(error.code or 0)
        _print_error(
            StreamlingError("code outside Streamling tried to exit the process", cause=error),
            debug="--debug" in args,
        )
        return ExitCode.FAILED
    except Exception as error:
        _print_error(error, debug="--debug" in args)
        return exit_code(error)
    return result if isinstance(result, int) else ExitCode.OK


def _print_error(error: Exception, *, debug: bool) -> None:
    from streamling.observe.telemetry.logging import logs_are_json

    if logs_are_json():
        logging.getLogger("streamling").error(render(error, debug=debug))
    else:
        print(render(error, debug=debug), file=sys.stderr)
