"""`schema`: the JSON Schema of the pipeline file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import EXIT_CODES, config_option, debug_option
from streamling.output.streams import stdout_for_data


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
@config_option
@debug_option
def schema(output: Path | None, with_plugins: bool, config_name: str | None, debug: bool) -> int:
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
      streamling schema | jq '."$defs" | keys'
    """
    from streamling.errors import StreamlingError
    from streamling.pipeline.jsonschema import pipeline_schema
    from streamling.runtime.app import App

    app = App.load(config_name)
    if with_plugins:
        with stdout_for_data():
            app.plugins.load_all()
    text = json.dumps(pipeline_schema(app.registry), indent=2, ensure_ascii=False)
    if output is None:
        click.echo(text)
        return ExitCode.OK
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise StreamlingError.user(f"{output} cannot be written: {error.strerror or error}") from None
    click.echo(f"wrote {output}; put this line at the top of your pipeline file:", err=True)
    click.echo(f"  # yaml-language-server: $schema={output}", err=True)
    return ExitCode.OK
