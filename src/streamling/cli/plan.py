"""`plan`: what would run, drawn as a tree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from streamling.cli.canvas import Canvas, canvas_of_stdout, echo_json
from streamling.cli.errors import ExitCode
from streamling.cli.options import (
    EXIT_CODES,
    config_option,
    debug_option,
    env_file_option,
    json_option,
    pipeline_argument,
)
from streamling.observe.terminal.streams import stdout_for_data

if TYPE_CHECKING:
    from streamling.engine.planning.description import NodeDescription, PlanDescription

#: fields that the drawing shows elsewhere, or that say nothing about what a node does
_TOLD_ELSEWHERE = frozenset(
    {"type", "from", "primary_key", "parallelism", "batch_size", "batch_flush_interval", "errors", "telemetry"}
)


@click.command(epilog=EXIT_CODES)
@pipeline_argument
@config_option
@env_file_option
@click.option(
    "--spark", "with_spark", is_flag=True, help="Add Spark's physical plan of every SQL segment (starts a JVM)."
)
@click.option(
    "--graph",
    type=click.Choice(["mermaid", "svg"]),
    is_flag=False,
    flag_value="mermaid",
    help="Print the graph of the nodes: as Mermaid text, or as an SVG image. Nothing is contacted.",
)
@json_option("Print the whole description as JSON.")
@debug_option
def plan(
    pipeline_file: str | None,
    config_name: str | None,
    with_spark: bool,
    graph: str | None,
    as_json: bool,
    debug: bool,
) -> int:
    """Show what PIPELINE_FILE would run; nothing runs and nothing is written.

    Every source starts a flow, drawn as a tree from the source down to the sinks. Below each node are where it runs,
    its key, its columns and its fields; secrets are masked. Adjacent SQL nodes share one Spark plan; a lane is a thread
    of this process with a bounded queue. A node with several upstreams is drawn below the first one; ↪ marks the
    others. The columns of sources are looked up, as with --validate.

    \b
    Examples:
      streamling plan pipeline.yaml
      streamling plan pipeline.yaml --spark
      streamling plan pipeline.yaml --graph svg > pipeline.svg
      streamling plan pipeline.yaml --json | jq '.nodes[].primary_key'
    """
    from streamling.observe.telemetry.logging import configure_logging

    if graph is not None and (with_spark or as_json):
        raise click.UsageError("--graph cannot be combined with --spark or --json")
    configure_logging("text", "debug" if debug else "warn")
    if graph is not None:
        click.echo(_draw(pipeline_file, config_name, graph), nl=False)
        return ExitCode.OK
    with stdout_for_data():
        description = _describe(pipeline_file, config_name, with_spark=with_spark, debug=debug)
    if as_json:
        echo_json(asdict(description))
    else:
        for line in drawing(description, canvas_of_stdout()):
            click.echo(line, color=True)
    return ExitCode.OK


def _draw(pipeline_file: str | None, config_name: str | None, form: str) -> str:
    from streamling.cli.drawing.graph import graph_of
    from streamling.cli.drawing.mermaid import mermaid
    from streamling.cli.drawing.svg import svg
    from streamling.engine.launch.launcher import Launcher

    with stdout_for_data():
        pipeline = Launcher.load(config_name).pipeline(pipeline_file)
    return (svg if form == "svg" else mermaid)(graph_of(pipeline))


def _describe(pipeline_file: str | None, config_name: str | None, *, with_spark: bool, debug: bool) -> PlanDescription:
    """Return the plan; ``with_spark`` adds Spark's plans and the columns that only Spark knows."""
    from streamling.engine.launch.check import PipelineCheck
    from streamling.engine.launch.launcher import Launcher
    from streamling.engine.planning.description import describe_plan

    with PipelineCheck(Launcher.load(config_name).without_waiting(), pipeline_file, debug=debug) as check:
        run, launcher = check.run, check.launcher
        describe = partial(
            describe_plan,
            run.resolve_sources(),
            config=launcher.config,
            registry=launcher.registry,
            state=launcher.state_store.location,
        )
        plan = describe(schemas=run.check_without_spark())
        if not with_spark or not run.needs_spark:
            return plan
        from streamling.engine.planning.description import spark_plans

        analysis = run.analyse(check.session())
        plans = spark_plans(analysis, plan.segments, launcher.config.spark.master)
    complete = describe(schemas={name: planned.schema for name, planned in analysis.nodes.items()})
    return replace(complete, spark_plans=plans)


# ── drawing ──────────────────────────────────────────────────────────────────────────────────────────────────


def drawing(plan: PlanDescription, canvas: Canvas = Canvas()) -> Iterator[str]:  # noqa: B008 - frozen
    """Yield the lines of the drawing."""
    yield from _header(plan, canvas)
    tree = _Tree(plan, canvas)
    below = {name for name, node in plan.nodes.items() if node.upstreams or node.bad_rows_of}
    beside = [name for name in plan.nodes if name not in below and name not in plan.flows]
    for root in (*plan.flows, *beside):
        yield ""
        yield from tree.node(root, "", "")
    for number, plans in plan.spark_plans.items():
        for node, text in plans.items():
            yield ""
            yield canvas.style(f"Spark plan {number}, up to {node}", bold=True)
            yield from (canvas.fit(f"  {line}", 0) for line in text.splitlines())


def _header(plan: PlanDescription, canvas: Canvas) -> Iterator[str]:
    flows = "1 flow" if len(plan.flows) == 1 else f"{len(plan.flows)} flows"
    end = "ends by itself" if plan.bounded else "runs until stopped"
    yield f"{canvas.style(plan.file, bold=True)}: {flows}, {end}"
    where = "all on this machine" if plan.placement == "local" else "on the executors of a cluster"
    yield canvas.fit(f"Spark {plan.master}, {where}", 0)
    yield canvas.fit(f"state of {plan.application_id} in {plan.state}", 0)


class _Tree:
    """Draws flows top-down; a node that several flows reach is drawn in full once."""

    def __init__(self, plan: PlanDescription, canvas: Canvas) -> None:
        self._plan = plan
        self._canvas = canvas
        self._drawn: set[str] = set()
        self._consumers: dict[str, list[str]] = {}
        for node in plan.nodes.values():
            for upstream in (*node.upstreams, *node.bad_rows_of):
                self._consumers.setdefault(upstream, []).append(node.name)
        symbols = ("● ", "├─", "└─", "│ ", "↪ ") if canvas.unicode else ("* ", "|-", "`-", "| ", "> ")
        self._dot, self._fork, self._last, self._bar, self._again = symbols

    def node(self, name: str, before: str, indent: str) -> Iterator[str]:
        """Yield the lines of a node. ``before`` precedes its own line, ``indent`` the lines after it."""
        node = self._plan.nodes[name]
        bold = self._canvas.style(name, bold=True)
        if name in self._drawn:
            yield f"{before}{self._again}{bold} (above)"
            return
        self._drawn.add(name)
        head = self._canvas.fit(f"  {_headline(node)}", len(before) + 2 + len(name))
        yield f"{before}{self._canvas.style(self._dot, fg=_COLOURS[node.kind])}{bold}{head}"
        below = self._consumers.get(name, [])
        margin = indent + (self._bar if below else "  ")
        for line in _details(node):
            yield margin + self._canvas.style(self._canvas.fit(f"  {line}", len(margin)), dim=True)
        for child in below:
            last = child == below[-1]
            yield from self.node(
                child, indent + (self._last if last else self._fork), indent + ("  " if last else self._bar)
            )


_COLOURS = {"source": "green", "transform": "blue", "sink": "magenta"}


def _headline(node: NodeDescription) -> str:
    what = node.type if node.kind == "transform" else f"{node.type} {node.kind}"
    bad_rows = [f"rejected rows of {', '.join(node.bad_rows_of)}"] if node.bad_rows_of else []
    return ", ".join([what, *_where(node), *bad_rows])


def _where(node: NodeDescription) -> Iterator[str]:
    several = f"{node.instances} " if node.instances > 1 else ""
    match node.place.value:
        case "pulled":
            yield ("bounded" if node.bounded else "continuous") + (f", {several}instances" if several else "")
        case "streamed":
            yield "bounded stream" if node.bounded else "continuous stream"
        case "spark":
            yield f"Spark plan {node.segment}" + (f", {several}partitions" if several else "")
        case "side":
            yield "side output" if node.upstreams else "filled externally"
        case "lane" if node.segment is not None:
            yield f"Arrow segment {node.segment}, {several or 'one '}lane{'s' if several else ''}"
        case "lane":
            yield f"{several or 'one '}lane{'s' if several else ''}"


def _details(node: NodeDescription) -> Iterator[str]:
    facts = []
    if node.primary_key:
        facts.append(f"key {', '.join(node.primary_key)}")
    if node.batch_size:
        facts.append(f"batches of {node.batch_size}")
    if node.flush_interval:
        facts.append(f"at least every {node.flush_interval:g} s")
    if node.state_keys:
        facts.append(f"state {', '.join(node.state_keys)}")
    if facts:
        yield "; ".join(facts)
    if fields := "  ".join(f"{name}: {_short(value)}" for name, value in _own_fields(node).items()):
        yield fields
    if node.kind != "sink" and node.place.value != "side":
        yield _columns(node)


def _own_fields(node: NodeDescription) -> dict[str, Any]:
    return {name: value for name, value in node.options.items() if name not in _TOLD_ELSEWHERE}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())


def _columns(node: NodeDescription) -> str:
    if node.columns is None:
        return "columns: only Spark knows them (--spark)"
    return f"columns: {', '.join(f'{column.name} {column.type}' for column in node.columns)}"
