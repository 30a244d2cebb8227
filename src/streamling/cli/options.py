"""Options, arguments and help texts shared by several commands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: set by the script of `streamling completion` when the shell asks for completions
COMPLETION_VARIABLE = "_STREAMLING_COMPLETE"

F = TypeVar("F", bound=Callable[..., Any])

#: last paragraph of a help page; `\b` keeps click from joining the lines
EXIT_CODES = """\b
Exit codes:
  0   done
  1   failed
  2   wrong usage
  78  the pipeline file or the configuration is wrong"""


class SuggestingGroup(click.Group):
    """A group that suggests the closest command for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing and args[0] not in self.list_commands(ctx) and not args[0].startswith("-"):
            raise unknown_command_error(args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)


def unknown_command_error(word: str, known: list[str], ctx: click.Context, otherwise: str = "") -> click.UsageError:
    """Return the error for ``word``, with similar commands."""
    close = get_close_matches(word.casefold(), known, n=1, cutoff=0.6)
    hint = f"did you mean '{close[0]}'?" if close else otherwise or f"commands: {', '.join(known)}."
    return click.UsageError(f"there is no command '{word}'; {hint}", ctx)


def pipeline_argument(function: F) -> F:
    return click.argument("pipeline_file", required=False, type=click.Path(dir_okay=False), shell_complete=yaml_files)(
        function
    )


def config_option(function: F) -> F:
    return click.option(
        "--config",
        "config_name",
        metavar="NAME",
        help="Configuration file: NAME.yaml in the working directory, or a path. Default: config.yaml if it exists.",
        shell_complete=yaml_files,
    )(function)


def env_file_option(function: F) -> F:
    return click.option(
        "--env-file",
        type=click.Path(dir_okay=False, path_type=Path),
        expose_value=False,
        callback=_use_env_file,
        help=(
            "Read environment variables from this file, such as the one from `streamling dev up`; "
            "existing variables win."
        ),
    )(function)


def _use_env_file(ctx: click.Context, param: click.Parameter, path: Path | None) -> None:
    if path is None or ctx.resilient_parsing:
        return
    from streamling.dev.services.envfile import read_env_file

    added = {name: value for name, value in read_env_file(path).items() if name not in os.environ}
    os.environ.update(added)
    ctx.call_on_close(lambda: [os.environ.pop(name, None) for name in added])


def debug_option(function: F) -> F:
    return click.option("--debug", is_flag=True, help="Show stack traces and Spark's log.")(function)


def json_option(help: str) -> Callable[[F], F]:
    return click.option("--json", "as_json", is_flag=True, help=help)


# ── completion of file names ─────────────────────────────────────────────────────────────────────────────────


def yaml_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete arguments and options that take a YAML file."""
    return yaml_completions(incomplete)


def yaml_completions(incomplete: str) -> list[CompletionItem]:
    """Return YAML files and folders that begin with ``incomplete``; if there are none, the shell completes file names
    itself."""
    from click.shell_completion import CompletionItem

    found = sorted(_matches(incomplete))
    if any(not name.endswith("/") for name in found):
        return [CompletionItem(name) for name in found]
    # only folders: the shell completes paths below them itself
    return [CompletionItem(incomplete, type="file")] if found else []


def _matches(incomplete: str) -> Iterator[str]:
    folder, slash, beginning = incomplete.rpartition("/")
    try:
        entries = list(Path(folder + slash or ".").iterdir())
    except OSError:
        return
    for entry in entries:
        if not entry.name.startswith(beginning) or (entry.name.startswith(".") and not beginning):
            continue
        if entry.is_dir():
            yield f"{folder}{slash}{entry.name}/"
        elif entry.suffix in (".yaml", ".yml"):
            yield f"{folder}{slash}{entry.name}"
