"""`dev`: real local services, without Docker."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from streamling.cli._dev import NAMES, common_options, local_services, short_path
from streamling.cli._dev_topics import consume, produce
from streamling.cli.canvas import canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.file_errors import file_errors
from streamling.cli.options import EXIT_CODES, SuggestingGroup, json_option
from streamling.cli.progress import progress_of_steps
from streamling.errors import StreamlingError
from streamling.observe.terminal.streams import write_data

if TYPE_CHECKING:
    from streamling.dev.services.service import LocalService
    from streamling.dev.services.services import LocalServices

F = TypeVar("F", bound=Callable[..., Any])

_WRITABLE = "choose a writable folder with --folder, or with cache_dir (STREAMLING__CACHE_DIR) for the programs"


@click.group(cls=SuggestingGroup, epilog=EXIT_CODES)
def dev() -> None:
    """Start and stop real services on this machine, without Docker: a Kafka broker, a schema registry, Postgres,
    ClickHouse.

    The programs are downloaded once (155 MB) into the cache folder. Data, logs and the file with the variables are in
    .streamling in the working directory. The services listen on 127.0.0.1 with public credentials or none: use them for
    development only. They need an extra: pip install 'streamling[dev]'

    \b
    Examples:
      streamling dev up
      streamling run pipeline.yaml --env-file .streamling/dev.env
      streamling dev produce orders.jsonl --topic orders --schema orders.avsc --key id
      streamling dev consume --topic orders --from-beginning --max 5
      streamling dev down
    """


def _only_option(function: F) -> F:
    return click.option(
        "--only",
        "names",
        metavar="NAME",
        type=click.Choice(NAMES),
        multiple=True,
        help=f"One of {', '.join(NAMES)}; can be repeated. Default: all.",
    )(function)


# ── up, down, status, run ────────────────────────────────────────────────────────────────────────────────────


@dev.command(epilog=EXIT_CODES)
@_only_option
@click.option("--port", "ports", metavar="NAME=PORT", multiple=True, help=("Use this port, e.g. kafka=9092."))
@common_options
def up(names: tuple[str, ...], ports: tuple[str, ...], folder: Path, config_name: str | None, debug: bool) -> int:
    """Start the services in the background and wait until they respond.

    Prints the variables that make pipelines use them, and writes them to dev.env in the folder. A service that is
    already running is left alone; one that ran before keeps its data and port.

    \b
    Examples:
      streamling dev up
      streamling dev up --only kafka --port kafka=9092
      eval "$(streamling dev up)"
    """
    services = local_services(folder, config_name, debug, ports)
    _start(services, names, folder)
    for name, value in services.variables().items():
        write_data(f"export {name}={shlex.quote(value)}")
    click.echo(f"to use them: streamling run PIPELINE.yaml --env-file {short_path(services.env_file)}", err=True)
    return ExitCode.OK


@dev.command(epilog=EXIT_CODES)
@_only_option
@click.option("--delete", is_flag=True, help="Also delete the data, so that the next start is empty.")
@common_options
def down(names: tuple[str, ...], delete: bool, folder: Path, config_name: str | None, debug: bool) -> int:
    """Stop the services that `up` started. Their data is kept for the next start.

    \b
    Examples:
      streamling dev down
      streamling dev down --only kafka --delete
    """
    services = local_services(folder, config_name, debug)
    with file_errors(folder, _WRITABLE):
        stopped = services.down(names or NAMES, delete=delete)
    click.echo(f"stopped {_listed(stopped)}" if stopped else "nothing was running", err=True)
    if delete:
        click.echo(f"deleted the data of {', '.join(names or NAMES)}", err=True)
    return ExitCode.OK


@dev.command(epilog=EXIT_CODES)
@json_option("Print a list of objects with service, running, address, pid, memory_bytes and log.")
@common_options
def status(as_json: bool, folder: Path, config_name: str | None, debug: bool) -> int:
    """Show address, process, memory and log file of each service.

    \b
    Examples:
      streamling dev status
      streamling dev status --json | jq '.[] | select(.running) | .address'
    """
    services = local_services(folder, config_name, debug)
    rows = [_status(service) for service in services.all]
    if as_json:
        echo_json(rows)
        return ExitCode.OK
    table = [
        (row["service"], row["address"], str(row["pid"]), f"{row['memory_bytes'] / 2**20:.0f} MB", row["log"])
        if row["running"]
        else (row["service"], "not running", "", "", row["log"])
        for row in rows
    ]
    for line in canvas_of_stdout().table(("SERVICE", "ADDRESS", "PID", "MEMORY", "LOG"), table):
        click.echo(line, color=True)
    return ExitCode.OK


@dev.command(epilog=EXIT_CODES, context_settings={"allow_interspersed_args": False})
@_only_option
@common_options
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(names: tuple[str, ...], command: tuple[str, ...], folder: Path, config_name: str | None, debug: bool) -> int:
    """Start the services, run COMMAND with their variables, then stop them.

    Services that were already running keep running. Exits with the exit code of COMMAND.

    \b
    Examples:
      streamling dev run -- streamling run pipeline.yaml
      streamling dev run --only postgres -- pytest
    """
    services = local_services(folder, config_name, debug)
    started = _start(services, names, folder)
    try:
        return _call(command, {**os.environ, **services.variables()})
    finally:
        if started:
            services.down([service.name for service in started])


dev.add_command(produce)
dev.add_command(consume)


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────


def _start(services: LocalServices, names: tuple[str, ...], folder: Path) -> list[LocalService]:
    began = time.monotonic()
    with file_errors(folder, _WRITABLE), progress_of_steps() as report_step:
        started = services.up(names or NAMES, progress=report_step)
    if started:
        click.echo(f"started {_listed(started)} in {time.monotonic() - began:.1f} s", err=True)
    else:
        click.echo(f"already running: {_listed(services.running)}", err=True)
    return started


def _listed(services: list[LocalService]) -> str:
    return ", ".join(service.name for service in services)


def _status(service: LocalService) -> dict[str, Any]:
    pid = service.pid
    return {
        "service": service.name,
        "running": pid is not None,
        "address": service.address if pid else None,
        "pid": pid,
        "memory_bytes": service.memory if pid else None,
        "log": short_path(service.log),
    }


def _call(command: tuple[str, ...], environ: dict[str, str]) -> int:
    with _signals() as arrived:
        try:
            child = subprocess.Popen(command, env=environ)
        except OSError as error:
            raise StreamlingError.user(f"cannot run {command[0]!r}: {error.strerror}") from None
        while (code := _ended(child)) is None:
            while arrived:
                child.send_signal(arrived.pop())
    return 128 - code if code < 0 else code  # the shell's convention for a process ended by a signal


def _ended(child: subprocess.Popen[bytes]) -> int | None:
    try:
        return child.wait(0.2)
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collect SIGTERM for the child, even before the child exists. Ctrl-C reaches both processes anyway."""
    arrived: list[int] = []
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda number, frame: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, frame: arrived.append(number)),
    }
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
