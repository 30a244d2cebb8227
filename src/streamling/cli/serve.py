"""`serve`: runs many pipelines in one process, with an HTTP API."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, debug_option, env_file_option
from streamling.cli.signals import shutdown_by_signals
from streamling.observe.terminal.streams import stdout_for_data

if TYPE_CHECKING:
    from streamling.pipeline.config import AppConfig

#: time from a signal to the end of the process before the configuration has been read
_BUDGET_SECONDS = 25.0


@click.command()
@click.option("--listen", metavar="ADDRESS:PORT", help="Where the API listens. Default: serve.listen, 127.0.0.1:4195.")
@click.option(
    "--dir",
    "folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Run the pipeline files of this folder; files that are added, changed or removed take effect immediately.",
)
@config_option
@env_file_option
@debug_option
def serve(listen: str | None, folder: Path | None, config_name: str | None, debug: bool) -> int:
    """Run any number of pipelines in one process, managed over an HTTP API.

    All pipelines share one warm Spark session. Which pipelines exist, and whether they run or are paused, is stored in
    the database of the state backend (./state.db): after a restart, everything continues from its last checkpoint. The
    API is described at /api/v1/openapi.json; `streamling apply`, `ls`, `describe` and others use it.

    Without tokens the API listens on loopback only, and everybody on this machine may use it. To listen elsewhere, set
    serve.tokens. Pipelines of --dir belong to their files: the API shows them but does not change them.

    SIGTERM, SIGHUP and SIGINT (Ctrl-C) drain all pipelines within shutdown_budget_secs and exit with 0; a second signal
    exits immediately. Rows of print sinks go to stdout, logs to stderr.

    \b
    Examples:
      streamling serve
      streamling serve --dir pipelines/
      streamling serve --listen 127.0.0.1:8080 --config production
      STREAMLING__SERVE__TOKENS__CI__VALUE=… STREAMLING__SERVE__TOKENS__CI__ROLE=operator \\
        streamling serve --listen 0.0.0.0:4195
      curl http://127.0.0.1:4195/api/v1/pipelines

    \b
    Exit codes:
      0   drained
      1   failed, or not drained within shutdown_budget_secs
      2   wrong usage
      78  invalid configuration
    """
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config

    with stdout_for_data(), shutdown_by_signals(_BUDGET_SECONDS) as shutdown:
        name = config_name or "config"
        config = _with_options(load_config(name, cwd=Path.cwd(), env=os.environ), listen, folder)
        configure_logging(config.log_format, "debug" if debug else config.log_level)
        shutdown.budget = config.shutdown_budget_secs
        from streamling.serve.server import Server

        server = Server(config, config_name=name, cwd=Path.cwd(), env=dict(os.environ), debug=debug)
        shutdown.clean_up = server.kill
        server.start()
        shutdown.drain(server)
        server.wait()
    return ExitCode.OK


def _with_options(config: AppConfig, listen: str | None, folder: Path | None) -> AppConfig:
    """Return ``config`` with what the command line says."""
    from streamling.serve.config import ServeConfig

    update: dict[str, Any] = {"listen": listen, "dir": folder.absolute() if folder is not None else None}
    given = {name: value for name, value in update.items() if value is not None}
    if listen is not None and not listen.rpartition(":")[2].isdigit():
        raise click.BadParameter(f"'{listen}' is not an address and a port, such as 127.0.0.1:4195")
    return config.model_copy(update={"serve": config.part(ServeConfig).serve.model_copy(update=given)})
