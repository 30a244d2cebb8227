"""`preview-server`: answers preview requests over HTTP."""

from __future__ import annotations

import os
from pathlib import Path

import click

from streamling.cli.errors import ExitCode
from streamling.cli.options import config_option, debug_option, env_file_option


@click.command("preview-server")
@config_option
@env_file_option
@debug_option
def preview_server(config_name: str | None, debug: bool) -> int:
    """Answer preview requests on admin_api_host and admin_api_port (127.0.0.1:3000).

    POST /preview with a pipeline file as the body runs the pipeline with sinks that discard their rows, in a process of
    its own, and answers with its rows as server-sent events. The parameter duration_seconds limits the time (180, at
    most 600). A new request ends the preview that is running. An invalid pipeline is answered with 422 and its errors.

    \b
    Example:
      streamling preview-server &
      curl -N --data-binary @pipeline.yaml 'http://127.0.0.1:3000/preview?duration_seconds=30'

    \b
    Exit codes:
      0   stopped by a signal
      1   the port is taken
      2   wrong usage
      78  invalid configuration
    """
    from streamling.observe.telemetry.logging import configure_logging
    from streamling.pipeline.config import load_config
    from streamling.serve.preview_server import serve_previews

    config = load_config(config_name or "config", cwd=Path.cwd(), env=os.environ)
    configure_logging(config.log_format, "debug" if debug else config.log_level)
    serve_previews(config, config_name)
    return ExitCode.OK
