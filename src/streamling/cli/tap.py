"""`tap`: shows rows of a node of a running pipeline."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, env_file_option
from streamling.errors import StreamlingError
from streamling.observe.terminal.printable import printable

if TYPE_CHECKING:
    from streamling.pipeline.config import AppConfig

_KINDS: Final = {"i": "\x1b[32m+I\x1b[0m ", "u": "\x1b[33m+U\x1b[0m ", "d": "\x1b[31m-D\x1b[0m "}


@click.command()
@click.argument("pipeline")
@click.argument("node")
@click.option("--filter", "condition", metavar="SQL", help="Show only rows for which this condition is true.")
@click.option("--kinds", metavar="KINDS", help="Show only these row kinds: i, u and d, separated by commas.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N rows.")
@click.option(
    "--rate",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of rows per second; others are skipped.",
)
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the rows, also on a terminal.")
@click.option("--url", metavar="URL", help="The admin API of the run. Default: found by the file or name.")
@click.option(
    "--server", metavar="URL", envvar="STREAMLING_SERVER", help="PIPELINE is a pipeline of this `streamling serve`."
)
@config_option
@env_file_option
def tap(
    pipeline: str,
    node: str,
    condition: str | None,
    kinds: str | None,
    limit: int | None,
    rate: int,
    as_json: bool,
    url: str | None,
    server: str | None,
    config_name: str | None,
) -> int:
    """Show rows of NODE, a source or transform, of the running PIPELINE: a file, or the name of a run.

    Rows that the pipeline has kept come first, then new ones as they pass the node. They are a sample: the
    pipeline never waits for viewers. Stop with Ctrl-C.

    --filter takes comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL, arithmetic, and the functions lower, upper,
    length, abs and coalesce. Use a dot to name a field of a struct column.

    \b
    Examples:
      streamling tap pipeline.yaml large_orders
      streamling tap pipeline.yaml orders --filter "total > 100 AND country = 'DE'" --limit 10
      streamling tap orders_v1 raw --kinds d
      streamling tap orders raw --server http://127.0.0.1:4195
      streamling tap pipeline.yaml orders --json | jq .total

    If the admin API needs a token, set STREAMLING_TOKEN or admin_api_token.

    \b
    Exit codes:
      0   the limit was reached, the pipeline has ended, or Ctrl-C
      1   the pipeline is not running, or the node or the filter is wrong
      2   wrong usage
    """
    from streamling.pipeline.config import load_config
    from streamling.serve.admin.client import AdminClient

    config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
    base = _server_base(server, pipeline) if server else f"{url or _running(config, pipeline)}/admin"
    parameters = {"topology_node_keys": node, "per_second": rate, "filter": condition, "kinds": kinds}
    query = urlencode({name: value for name, value in parameters.items() if value is not None})
    client = AdminClient(base, _token(config))
    try:
        for event in islice(client.events(f"/live-data?{query}"), limit):
            _print_row(event.data, as_json=as_json)
    except KeyboardInterrupt:
        pass
    return ExitCode.OK


def _print_row(text: str, *, as_json: bool) -> None:
    row = text.partition('"data": ')[2].removesuffix("}")  # not parsed and printed again: that loses digits
    coloured = not as_json and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    prefix = _KINDS.get(json.loads(row).get("_gs_op", ""), "") if coloured else ""
    print(prefix + printable(row), flush=True)


def _token(config: AppConfig) -> str | None:
    configured = config.admin_api_token
    return os.environ.get("STREAMLING_TOKEN") or (None if configured is None else configured.get_secret_value())


def _server_base(server: str, pipeline: str) -> str:
    namespace, _, name = pipeline.rpartition("/")
    return f"{server.rstrip('/')}/api/v1/pipelines/{quote(namespace or 'default')}/{quote(name)}"


def _running(config: AppConfig, pipeline: str) -> str:
    """Return the address of a run of the file or the application id ``pipeline``."""
    from streamling.serve.admin.registry import running_pipelines

    runs = running_pipelines(config.cache_dir)
    path = os.path.abspath(pipeline)
    found = [run for run in runs if run.file == path] or [run for run in runs if run.application_id == pipeline]
    if len(found) == 1:
        return found[0].url
    if found:
        listed = ", ".join(run.url for run in found)
        raise StreamlingError.user(f"'{pipeline}' runs {len(found)} times", remedy=f"choose one with --url: {listed}")
    listed = ", ".join(sorted(run.application_id for run in runs)) or "none"
    raise StreamlingError.user(
        f"no running pipeline '{pipeline}' has been found on this machine (running: {listed})",
        remedy="start it with `streamling run`, or name its admin API with --url",
    )
