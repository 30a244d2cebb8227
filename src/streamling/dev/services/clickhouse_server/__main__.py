"""``python -m streamling.dev.services.clickhouse_server --port PORT --folder FOLDER``; user and password are in the
environment."""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path

from streamling.dev.services.clickhouse_server.engine import Engine
from streamling.dev.services.clickhouse_server.server import ChdbServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="streamling.dev.services.clickhouse_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    options = parser.parse_args()
    server = ChdbServer(
        ("127.0.0.1", options.port),
        Engine(options.folder),
        user=os.environ.get("CLICKHOUSE_USER", "default"),
        password=os.environ.get("CLICKHOUSE_PASSWORD", ""),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        # statements that still run end with the process; what was acknowledged is on disk
        signal.signal(number, lambda *_: os._exit(0))
    server.serve_forever()


main()
