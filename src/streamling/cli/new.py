"""`new DIR`: creates a first pipeline."""

from __future__ import annotations

from pathlib import Path

import click

from streamling.cli.errors import ExitCode


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def new(folder: Path) -> int:
    """Create a first pipeline with a test and a README in DIR, a new or empty folder.

    The pipeline makes up some rows, selects among them with SQL, prints them and ends. It needs no services. Editors
    complete its fields: the JSON schemas of this version are written beside it.

    \b
    Example:
      streamling new weather
      cd weather
      streamling run pipeline.yaml
      streamling test

    \b
    Exit codes:
      0   done
      1   the folder could not be written
      2   wrong usage, such as a folder that is not empty
    """
    from streamling.cli.template import write_template
    from streamling.dev.reference.schemas import schema_text
    from streamling.plugins.registry import Registry

    schemas = {"pipeline.schema.json": schema_text(Registry.builtin()), "test.schema.json": schema_text(None)}
    next_steps = ["streamling run pipeline.yaml", "streamling test", "streamling plan pipeline.yaml"]
    write_template("first", folder, {}, next_steps, schemas)
    return ExitCode.OK
