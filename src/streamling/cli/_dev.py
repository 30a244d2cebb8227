"""Shared by the commands of `dev`: the folder option and the services in that folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamling.cli.options import config_option, debug_option
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from streamling.dev.services.service import LocalService
    from streamling.dev.services.services import LocalServices

F = TypeVar("F", bound=Callable[..., Any])
S = TypeVar("S", bound="LocalService")

NAMES = ("kafka", "registry", "postgres", "clickhouse")


def common_options(function: F) -> F:
    """Add the options of every command of the group: folder and configuration."""
    for option in (
        debug_option,
        config_option,
        click.option(
            "--folder",
            type=click.Path(file_okay=False, path_type=Path),
            default=Path(".streamling"),
            show_default=True,
            help="Folder for the data and logs of the services.",
        ),
    ):
        function = option(function)
    return function


def local_services(folder: Path, config_name: str | None, debug: bool, ports: tuple[str, ...] = ()) -> LocalServices:
    from streamling.dev.services.packages import Packages
    from streamling.dev.services.services import LocalServices
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config
    from streamling.spark.jvm.java import find_java

    configure_logging("text", "debug" if debug else "warn")
    config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
    mirror = config.spark.conf.get("spark.jars.ivySettings")
    packages = Packages(config.cache_dir, find_java(os.environ), Path(mirror) if mirror else None)
    return LocalServices(folder, packages, ports=dict(map(_port, ports)))


def _port(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if name not in NAMES or not number.isdecimal() or not 0 < int(number) < 65536:
        raise click.BadParameter(
            f"'{text}' is not NAME=PORT, where NAME is one of {', '.join(NAMES)}", param_hint="--port"
        )
    return name, int(number)


def short_path(path: Path) -> str:
    """Return ``path`` relative to the working directory if it is below it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def running(service: S) -> S:
    if not service.running:
        raise StreamlingError.user(
            f"{service.name} is not running in {short_path(service.folder.parent)}", remedy="streamling dev up"
        )
    return service
