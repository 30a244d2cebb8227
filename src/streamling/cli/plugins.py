"""`plugins list`: the available node types; `plugins new`: creates a plugin project."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import EXIT_CODES, SuggestingGroup, config_option, debug_option, json_option
from streamling.observe.terminal.streams import stdout_for_data

if TYPE_CHECKING:
    from streamling.pipeline.model import NodeKind
    from streamling.plugins.registry import OperatorType, Registry


@click.group(cls=SuggestingGroup, epilog=EXIT_CODES)
def plugins() -> None:
    """List the node types that a pipeline file can use, or create a new one.

    Built-in types come with Streamling. A plugin is a Python class, from an installed package (entry point
    `streamling.plugins`) or from a file on `plugin.path` of the configuration.

    \b
    Examples:
      streamling plugins list
      streamling plugins new acme
    """


@plugins.command("new", epilog=EXIT_CODES)
@click.argument("name")
@click.option(
    "--dir", "folder", type=click.Path(file_okay=False, path_type=Path), help=("Folder to create; default: NAME.")
)
def new(name: str, folder: Path | None) -> int:
    """Create a plugin project: a source, a transform and a sink with tests, a pipeline, and the package metadata.

    NAME is the name of the Python module and the first part of the plugin ids.

    \b
    Example:
      streamling plugins new acme
      cd acme
      streamling run pipeline.yaml
    """
    from streamling.cli.template import write_template
    from streamling.dev.reference.schemas import schema_text
    from streamling.plugins.registry import Registry

    module = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or module in (*sys.stdlib_module_names, "streamling"):
        raise click.UsageError(
            f"'{name}' is not a valid module name; use lower-case letters, digits and _, such as acme_orders"
        )
    words = {"DIST": module.replace("_", "-"), "NAME": module}
    steps = ["streamling run pipeline.yaml", "streamling plugins list", "pip install -e '.[test]' && pytest"]
    schemas = {"pipeline.schema.json": schema_text(Registry.builtin())}
    write_template("plugin", folder or Path(name), words, steps, schemas)
    return ExitCode.OK


@plugins.command("list", epilog=EXIT_CODES)
@click.option(
    "--kind",
    type=click.Choice(["source", "transform", "sink", "function", "preprocessor"]),
    help=("Show only this kind."),
)
@config_option
@json_option("Print a list of objects with kind, id, description, origin and runs.")
@debug_option
def list_(kind: str | None, config_name: str | None, as_json: bool, debug: bool) -> int:
    """List all sources, transforms and sinks, and the other extensions of plugins: id, origin, description.

    \b
    Examples:
      streamling plugins list
      STREAMLING__PLUGIN__PATH=plugins/ streamling plugins list --kind sink
    """
    from streamling.engine.launch.launcher import Launcher
    from streamling.observe.telemetry.logging import configure_logging

    configure_logging("text", "warn")
    launcher = Launcher.load(config_name)
    with stdout_for_data():
        launcher.plugins.load_all()
    entries = [entry for entry in _entries(launcher.registry) if kind in (None, entry.kind)]
    if as_json:
        echo_json([asdict(entry) for entry in entries])
        return ExitCode.OK
    rows = [(entry.kind, entry.id, entry.origin, entry.description) for entry in entries]
    for line in canvas_of_stdout().table(("KIND", "ID", "FROM", "DESCRIPTION"), rows):
        click.echo(line, color=True)
    return ExitCode.OK


@dataclass(frozen=True)
class _Entry:
    kind: str
    id: str
    description: str
    origin: str
    #: every type runs; kept for programs that read the JSON
    runs: bool = True


def _entries(registry: Registry) -> Iterator[_Entry]:
    from streamling.pipeline.model import NodeKind

    packages = _packages()
    for kind in NodeKind:
        for id in registry.ids(kind):
            node_type = registry.get(kind, id)
            if node_type is not None:
                yield _entry(kind, node_type, packages)
    for name, kinds in (("function", registry.functions), ("preprocessor", registry.preprocessors)):
        for id, plugin in sorted(kinds.items()):
            yield _Entry(name, id, _description(plugin), _origin(id, plugin, packages))


def _entry(kind: NodeKind, node_type: OperatorType, packages: dict[str, str]) -> _Entry:
    origin = _origin(node_type.id, node_type.operator, packages) if node_type.plugin else "built-in"
    description = _description(node_type.options, node_type.operator)
    return _Entry(kind.value, node_type.id, description, origin)


def _description(*classes: type | None) -> str:
    """Return the first line of the docstring of the options or of the class; not that of our base classes."""
    ours = ("streamling.pipeline.options", "streamling.plugins.", "pydantic", "abc", "typing", "builtins")
    for described in classes:
        for kind in described.__mro__ if described is not None else ():
            text = vars(kind).get("__doc__")
            if text and not kind.__module__.startswith(ours):
                return str(text).strip().splitlines()[0].replace("``", "`")
    return ""


def _packages() -> dict[str, str]:
    """Return package and version by plugin id."""
    from importlib.metadata import entry_points

    from streamling.plugins.loader import GROUP

    return {e.name: f"{e.dist.name} {e.dist.version}" for e in entry_points(group=GROUP) if e.dist is not None}


def _origin(id: str, kind: type | None, packages: dict[str, str]) -> str:
    if id in packages:
        return packages[id]
    module = sys.modules.get(kind.__module__) if kind else None
    return getattr(module, "__file__", None) or "plugin"
