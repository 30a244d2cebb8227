"""The ways in which the engine runs an operator."""

from __future__ import annotations

from enum import StrEnum


class ExecutionMode(StrEnum):
    """Where the work of a node happens."""

    POLLED = "pulled"  # a source that the engine polls; `plan --json` shows the value
    STREAMED = "streamed"  # a source that waits for rows itself
    SPARK = "spark"  # part of a Spark plan
    LANE = "lane"  # a thread of this process with a bounded queue
    SIDE = "side"  # sees the rows of its upstream before they are emitted
