"""`ls`, `describe` and `logs`: what the pipelines of a server do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from streamling.cli._server import ServerClient, pipeline_path
from streamling.cli._server_options import EXIT_CODES, namespace_option, pipeline_name_argument, server_options
from streamling.cli.canvas import Canvas, canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import json_option
from streamling.observe.terminal.streams import write_data

_STATES = ("pending", "starting", "running", "pausing", "paused", "restarting", "draining", "finished", "failed")
_NO_DATABASE = "the server cannot read its database"
_HEADINGS = ("NAMESPACE", "NAME", "STATE", "READY", "ROWS", "LAG", "RESTARTS", "FOR", "REASON")


@click.command(epilog=EXIT_CODES)
@click.option("--namespace", "-n", envvar="STREAMLING_NAMESPACE", help="Only this namespace. Default: all.")
@click.option("--state", type=click.Choice(_STATES), help="Only pipelines in this state.")
@json_option("Print a list of objects instead of the table.")
@server_options
def ls(server: ServerClient, namespace: str | None, state: str | None, as_json: bool, debug: bool) -> int:
    """List the pipelines of a server: state, rows delivered, lag, restarts after failures.

    \b
    Examples:
      streamling ls
      streamling ls --state failed
      streamling ls --json | jq -r '.[] | select(.lag > 1000) | .name'
    """
    query = {name: value for name, value in {"namespace": namespace, "state": state}.items() if value}
    items = list(server.pages("/pipelines", query))
    if as_json:
        echo_json(items)
    elif not items:
        click.echo(f"there are no pipelines{' that match' if query else ''} on {server.url}", err=True)
    else:
        for line in canvas_of_stdout().table(_HEADINGS, [_row(item) for item in items]):
            click.echo(line, color=True)
    if (old := next(filter(None, map(_old_since, items)), "")) and not as_json:
        click.echo(f"this may be old, since {old}: {_NO_DATABASE}", err=True)
    return ExitCode.OK


def _old_since(item: dict[str, Any]) -> str:
    """Return when what the server knows became old; empty if it is current."""
    return item.get("stale_since") or ""


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    return (
        item["namespace"],
        item["name"],
        f"{item['state']} (unstable)" if _is_unstable(item) else item["state"],
        "yes" if item["ready"] else "no",
        f"{item['rows_out']:,}",
        "" if item["lag"] is None else f"{item['lag']:,}",
        str(item["restarts"]),
        _age(item["state_since"]),
        _first_line(_why(item)),
    )


def _first_line(text: str) -> str:
    first, *others = text.splitlines() or [""]
    return f"{first} …" if others else first


def _is_unstable(item: dict[str, Any]) -> bool:
    """Return whether a pipeline is running but failed a moment ago."""
    return item["state"] == "running" and item["last_error"] is not None


def _why(item: dict[str, Any]) -> str:
    last, attempt = item["last_error"], item["next_attempt_at"]
    if attempt is not None:
        return f"next attempt in {_until(attempt)}: {item['error']}"
    if _is_unstable(item):
        return f"failed {_age(last['at'])} ago: {last['message']}"
    return item["error"] or item["reason"] or ""


@click.command(epilog=EXIT_CODES)
@pipeline_name_argument
@namespace_option
@json_option("Print the object of the API.")
@server_options
def describe(server: ServerClient, name: str, namespace: str, as_json: bool, debug: bool) -> int:
    """Show one pipeline of a server: state, error, rows per sink, costs, settings and definition.

    \b
    Examples:
      streamling describe orders
      streamling describe orders --json | jq -r .definition
    """
    found = server.get(pipeline_path(namespace, name))
    if as_json:
        echo_json(found)
    else:
        for line in _description(found, canvas_of_stdout()):
            click.echo(line, color=True)
    return ExitCode.OK


def _description(found: dict[str, Any], canvas: Canvas) -> Iterator[str]:
    fields = [(label, text) for label, text in _fields(found) if text]
    width = max(len(label) for label, _ in fields)
    for label, text in fields:
        first, *others = map(canvas.style, text.splitlines())
        yield f"{canvas.style(label.ljust(width), bold=True)}  {first}"
        yield from (f"{' ' * width}  {line}" for line in others)
    yield canvas.style("definition", bold=True)
    yield from (f"  {canvas.style(line)}" for line in found["definition"].splitlines())


def _fields(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    ready = ", ready" if found["ready"] else ""
    costs = found.get("costs") or {}
    yield "name", f"{found['namespace']}/{found['name']}"
    yield "old since", f"{_old_since(found)}: {_NO_DATABASE}" if _old_since(found) else ""
    unstable = ", unstable" if _is_unstable(found) else ""
    yield "state", f"{found['state']}{ready}{unstable} for {_age(found['state_since'])} (desired: {found['desired']})"
    yield "reason", found["reason"] or ""
    last, since = found["last_error"], found["restarts_since"]
    yield "error", found["error"] or ""
    yield "last error", f"{last['message']} ({_age(last['at'])} ago)" if last is not None and not found["error"] else ""
    yield "help", found["remedy"] or (last["remedy"] if last is not None else "")
    yield "restarts", f"{found['restarts']} since {since}" if found["restarts"] else "0"
    yield "next attempt", f"in {_until(found['next_attempt_at'])}" if found["next_attempt_at"] else ""
    yield "rows", ", ".join(f"{count:,} to {sink}" for sink, count in found["rows"].items())
    yield "rows read", _number(found["rows_in"])
    yield "rows/s", _number(costs.get("rows_per_second"))
    yield "lag", _number(found["lag"])
    yield "checkpoint", _checkpoint(found["epoch"], costs.get("checkpoint_age"))
    yield "threads", _number(costs.get("threads"))
    yield "CPU", _cpu(costs)
    yield "topic", f"read once for this and {others} other sources" if (others := costs.get("shared_with")) else ""
    yield "size", f"{found['size']}, {found['isolation']}"
    yield "managed by", {"dir": "a file in the server's folder"}.get(found["managed_by"], found["managed_by"])
    yield "version", f"{found['generation']}, changed {found['updated_at']}, created {found['created_at']}"
    yield "settings", json.dumps(found["config"], ensure_ascii=False) if found["config"] else ""


def _cpu(costs: Mapping[str, Any]) -> str:
    seconds, percent = costs.get("cpu_seconds"), costs.get("cpu_percent")
    now = "" if percent is None else f"{percent:.1f} % of a core"
    return ", ".join(filter(None, (now, "" if seconds is None else f"{_number(seconds)} s since the start")))


def _checkpoint(epoch: int | None, age: float | None) -> str:
    from streamling.cli.watch import duration

    if epoch is None:
        return ""
    return str(epoch) if age is None else f"{epoch}, {duration(age)} ago"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _age(moment: str) -> str:
    return _between(datetime.fromisoformat(moment), datetime.now(UTC))


def _until(moment: str) -> str:
    return _between(datetime.now(UTC), datetime.fromisoformat(moment))


def _between(earlier: datetime, later: datetime) -> str:
    from streamling.cli.watch import duration

    return duration(max(0.0, (later - earlier).total_seconds()))


@click.command(epilog=EXIT_CODES)
@pipeline_name_argument
@namespace_option
@click.option("--follow", "-f", is_flag=True, help="Wait for further records until Ctrl-C.")
@click.option("--tail", type=click.IntRange(0, 500), default=100, show_default=True, help="Number of past records.")
@json_option("Print one JSON object per line, with time, level, node and message.")
@server_options
def logs(server: ServerClient, name: str, namespace: str, follow: bool, tail: int, as_json: bool, debug: bool) -> int:
    """Print the last log records of a pipeline of a server.

    \b
    Examples:
      streamling logs orders
      streamling logs orders -f --tail 10
      streamling logs orders --json | jq 'select(.level == "ERROR")'
    """
    query = {"follow": str(follow).lower(), "tail": str(tail)}
    try:
        for line in server.lines(f"{pipeline_path(namespace, name)}/logs", query):
            if not line:
                continue  # the server checks whether anybody is still listening
            if as_json:
                write_data(line)
            else:
                click.echo(_log_line(json.loads(line)))
    except KeyboardInterrupt:
        if not follow:
            raise
    return ExitCode.OK


def _log_line(record: dict[str, Any]) -> str:
    node = f" {record['node']}:" if record["node"] else ""
    message = record["message"].replace("\n", "\n    ")  # the start of a line is the time of a record
    return f"{record['time']} {record['level']:5}{node} {message}"
