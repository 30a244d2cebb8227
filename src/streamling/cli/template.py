"""Project folders, as created by `new` and `plugins new`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from streamling.cli.file_errors import file_errors

#: files that would take effect in our own repository under their real names
_RENAMED = {"gitignore": ".gitignore"}


def write_template(
    name: str, folder: Path, words: Mapping[str, str], next_steps: list[str], more: Mapping[str, str] | None = None
) -> None:
    """Fill ``folder``, which must be new or empty, and print what was written and what to do next.

    ``words`` are replaced in the names and contents of all files. ``more`` are further files: name → content.
    """
    with file_errors(folder, "choose a writable folder"):
        if folder.is_dir() and any(folder.iterdir()):
            raise click.UsageError(f"{folder} is not empty; choose a new folder")
        written = _copy(files("streamling") / "cli" / "templates" / name, folder, words)
        for file, content in (more or {}).items():
            (folder / file).write_text(content, encoding="utf-8")
            written.append(folder / file)
    click.echo("\n".join(f"wrote {path}" for path in written))
    enter = [] if folder.resolve() == Path.cwd() else [f"cd {shlex.quote(str(folder))}"]
    click.echo("\nNext:\n" + "\n".join(f"  {step}" for step in [*enter, *next_steps]))


def _copy(template: Traversable, folder: Path, words: Mapping[str, str]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for entry in sorted(template.iterdir(), key=lambda entry: entry.name):
        if entry.name == "__pycache__":
            continue
        target = folder / _replaced(_RENAMED.get(entry.name, entry.name), words)
        if entry.is_dir():
            written += _copy(entry, target, words)
        else:
            target.write_text(_replaced(entry.read_text(encoding="utf-8"), words), encoding="utf-8")
            written.append(target)
    return written


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text
