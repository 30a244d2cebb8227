"""`schema`: the JSON Schema of the pipeline file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import EXIT_CODES, config_option, debug_option


@click.command(epilog=EXIT_CODES)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="Write it to FILE."
)
@config_option
@debug_option
def schema(output: Path | None, config_name: str | None, debug: bool) -> int:
    """Print the JSON Schema of the pipeline file, for completion, help and checks in your editor.

    It covers the built-in node types and the plugins that this configuration loads.

    \b
    Write it next to your pipeline:
      streamling schema -o pipeline.schema.json

    \b
    Editors with the YAML language server (VS Code with the YAML extension, Neovim, Helix, JetBrains)
    take it from the first line of the pipeline file:
      # yaml-language-server: $schema=pipeline.schema.json

    \b
    Examples:
      streamling schema -o pipeline.schema.json
      streamling schema | jq '."$defs" | keys'
    """
    from streamling.app import App
    from streamling.errors import StreamlingError
    from streamling.pipeline.jsonschema import pipeline_schema

    text = json.dumps(pipeline_schema(App.load(config_name).registry), indent=2, ensure_ascii=False)
    if output is None:
        click.echo(text)
        return ExitCode.OK
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise StreamlingError.user(f"{output} cannot be written: {error.strerror or error}") from None
    click.echo(f"wrote {output}; begin your pipeline file with", err=True)
    click.echo(f"  # yaml-language-server: $schema={output}", err=True)
    return ExitCode.OK
