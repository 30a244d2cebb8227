"""Every built-in operator keeps the contract that plugins are held to."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from streamling.connectors.blackhole import BlackholeSink
from streamling.connectors.file.source import FileSource
from streamling.connectors.memory import MemorySink
from streamling.connectors.print import PrintSink
from streamling.testing import SinkContract, SourceContract


class TestPrintSink(SinkContract):
    @pytest.fixture(autouse=True)
    def _output(self) -> None:
        self.output = output = io.BytesIO()

        class Printing(PrintSink):
            def __init__(self, context):
                super().__init__(context, output)

        self.operator = Printing

    def durable(self) -> list[Mapping[str, Any]]:
        return [json.loads(line) for line in self.output.getvalue().splitlines()]


class TestMemorySink(SinkContract):
    @pytest.fixture(autouse=True)
    def _books(self) -> None:
        books = self.books = []

        class Remembered(MemorySink):
            """The sink forgets with its pipeline: let the test keep its rows over several."""

            def __init__(self, context):
                super().__init__(context)
                books.append(self)

        self.operator = Remembered

    def durable(self) -> list[Mapping[str, Any]]:
        return [row for sink in self.books for row in sink.table().to_pylist()]


class TestBlackholeSink(SinkContract):
    operator = BlackholeSink

    def durable(self) -> None:
        return None


@pytest.mark.spark
class TestBlackholeSinkWithSpark(SinkContract):
    """Rows that are not in Python yet are written by Spark."""

    class Writing(BlackholeSink):
        def write_arrow(self, batches: Sequence[pa.RecordBatch]) -> bool:
            return False

    operator = Writing

    @pytest.fixture(autouse=True)
    def _session(self, spark) -> None:
        self.session = spark

    def durable(self) -> None:
        return None


class FileSourceContract(SourceContract):
    operator = FileSource
    mode = "bounded"

    @pytest.fixture(autouse=True)
    def _files(self, tmp_path, spark) -> None:
        self.session = spark
        self.folder = tmp_path / "orders"
        self.folder.mkdir()
        for month in range(1, 5):
            rows = "".join(f"{month * 10 + n},n{n}\n" for n in range(3))
            (self.folder / f"2024-0{month}.csv").write_text("id,name\n" + rows)

    def options(self) -> dict[str, Any]:
        return {"path": str(self.folder), "format": "csv", "mode": {"type": self.mode}}

    def external_state(self) -> list[str]:
        return sorted(path.name for path in self.folder.rglob("*"))

    def expected(self) -> list[dict[str, Any]]:
        return [{"id": month * 10 + n, "name": f"n{n}"} for month in range(1, 5) for n in range(3)]


@pytest.mark.spark
class TestBoundedFileSource(FileSourceContract):
    pass


@pytest.mark.spark
class TestContinuousFileSource(FileSourceContract):
    def options(self) -> dict[str, Any]:
        mode = {"type": "continuous", "poll_interval": "20ms"}
        return {"path": str(self.folder), "format": "csv", "mode": mode}
