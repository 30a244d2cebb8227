"""`new DIR`: a first pipeline to start from."""

from __future__ import annotations

import shlex
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from streamling.cli.errors import ExitCode

#: files that would act on our own repository under their real names
_RENAMED = {"gitignore": ".gitignore"}


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def new(folder: Path) -> int:
    """Write a first pipeline with data and a README into DIR, a new or empty folder.

    The pipeline reads two small CSV files, selects rows with SQL, prints them and ends. It needs no other service.

    \b
    Example:
      streamling new weather
      cd weather
      streamling run pipeline.yaml

    \b
    Exit codes:
      0   done
      1   the folder could not be written
      2   wrong usage, such as a folder that is not empty
    """
    from streamling.errors import StreamlingError

    if folder.is_dir() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} is not empty; name a new folder")
    try:
        written = _copy(files("streamling") / "templates" / "first", folder)
    except OSError as error:
        raise StreamlingError.user(f"{folder} cannot be written: {error.strerror or error}") from None
    click.echo("\n".join(f"wrote {path}" for path in written))
    enter = "" if folder.resolve() == Path.cwd() else f"  cd {shlex.quote(str(folder))}\n"
    click.echo(f"\nNext:\n{enter}  streamling run pipeline.yaml\n  streamling plan pipeline.yaml")
    return ExitCode.OK


def _copy(template: Traversable, folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry in sorted(template.iterdir(), key=lambda entry: entry.name):
        target = folder / _RENAMED.get(entry.name, entry.name)
        if entry.is_dir():
            written += _copy(entry, target)
        else:
            target.write_bytes(entry.read_bytes())
            written.append(target)
    return written
