"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def pipeline_argument(function: F) -> F:
    return click.argument("pipeline_file", required=False, type=click.Path(dir_okay=False))(function)


def config_option(function: F) -> F:
    return click.option(
        "--config",
        "config_name",
        metavar="NAME",
        help="Configuration file: NAME.yaml in the working directory, or a path. Default: config.yaml if it exists.",
    )(function)


def debug_option(function: F) -> F:
    return click.option("--debug", is_flag=True, help="Show traces of errors and what Spark logs.")(function)
