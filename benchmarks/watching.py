"""What is measured about a run while it is benchmarked."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from streamling.engine.run.observed import ObservedRun
from streamling.errors import StreamlingError
from streamling.observe.telemetry.log_book import LogBook
from streamling.observe.telemetry.prometheus import exposition
from streamling.periodic import run_periodically
from streamling.serve.admin.application import create_application
from streamling.serve.admin.client import AdminClient
from streamling.serve.admin.server import create_server, listen

if TYPE_CHECKING:
    from streamling.engine.run.run import PipelineRun
    from streamling.pipeline.config import AppConfig


#: a client reads the topology and the live rows of every node
WATCHED: Final = "watched"
#: rows inside plans of Spark are counted, and all metrics are formatted every second
EXPORTED: Final = "exported"


@contextmanager
def watching(run: PipelineRun, config: AppConfig, observed: str) -> Iterator[None]:
    """Observe ``run`` in this way while the block runs; an empty text means not at all."""
    if observed == WATCHED:
        with _watched(run, config):
            yield
    elif observed == EXPORTED:
        with run_periodically(partial(_format_metrics, run), 1.0, name="metrics"):
            yield
    else:
        yield


def _format_metrics(run: PipelineRun) -> None:
    exposition(run.metrics.snapshot())


@contextmanager
def _watched(run: PipelineRun, config: AppConfig) -> Iterator[None]:
    config = config.model_copy(update={"admin_api_port": 0})
    observed = ObservedRun(run, name="bench", application_id="bench", jvm_megabytes=lambda: None)
    nodes = ",".join(node.name for node in run.pipeline if node.name in run.observer.live_rows)
    paths = ("/admin/topology/events", f"/admin/live-data?topology_node_keys={nodes}&per_second=100")
    with ExitStack() as resources:
        listening = resources.enter_context(listen(config))
        server = create_server(create_application(observed, config, LogBook()))
        serving = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
        serving.start()
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        for path in paths:
            threading.Thread(target=_read, args=(base, path), daemon=True).start()
        yield
        server.should_exit = True
        serving.join(5)


def _read(base: str, path: str) -> None:
    try:
        for _ in AdminClient(base).events(path):
            pass
    except StreamlingError:
        return  # the server has ended
