"""`schema`: the JSON Schema of the pipeline file."""

from __future__ import annotations

from pathlib import Path

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import EXIT_CODES, config_option, debug_option
from streamling.observe.terminal.streams import stdout_for_data


@click.command(epilog=EXIT_CODES)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help=("Write the schema to FILE."),
)
@click.option(
    "--plugins", "with_plugins", is_flag=True, help=("Include the options of plugins, which imports their code.")
)
@click.option("--test", "of_test", is_flag=True, help="The schema of test files (`streamling test`) instead.")
@config_option
@debug_option
def schema(output: Path | None, with_plugins: bool, of_test: bool, config_name: str | None, debug: bool) -> int:
    """Print the JSON Schema of the pipeline file, for completion, help and checks in your editor.

    It covers the built-in node types; nodes of other types may have any field. --plugins adds the types of installed
    packages and of `plugin.path`, whose code is imported for this.

    \b
    Write it next to your pipeline:
      streamling schema -o pipeline.schema.json

    \b
    Editors with the YAML language server (VS Code with the YAML extension, Neovim, Helix, JetBrains)
    read it from the first line of the pipeline file:
      # yaml-language-server: $schema=pipeline.schema.json

    \b
    Examples:
      streamling schema -o pipeline.schema.json --plugins
      streamling schema -o test.schema.json --test
      streamling schema | jq '."$defs" | keys'
    """
    if of_test and with_plugins:
        raise click.UsageError("--test and --plugins cannot be combined: test files have no fields of plugins")
    text = _schema_text(config_name, with_plugins=with_plugins, of_test=of_test)
    if output is None:
        click.echo(text, nl=False)
        return ExitCode.OK
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        from streamling.errors import StreamlingError

        raise StreamlingError.user(f"{output} cannot be written: {error.strerror or error}") from None
    click.echo(f"wrote {output}; put this line at the top of your {'test' if of_test else 'pipeline'} file:", err=True)
    click.echo(f"  # yaml-language-server: $schema={output}", err=True)
    return ExitCode.OK


def _schema_text(config_name: str | None, *, with_plugins: bool, of_test: bool) -> str:
    from streamling.dev.reference.schemas import schema_text
    from streamling.engine.launch.launcher import Launcher

    if of_test:
        return schema_text(None)
    launcher = Launcher.load(config_name)
    if with_plugins:
        with stdout_for_data():
            launcher.plugins.load_all()
    return schema_text(launcher.registry)
