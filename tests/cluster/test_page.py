"""The page says what the matrix covers, and the matrix covers every node type."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from streamling.pipeline.model import NodeKind
from streamling.plugins.registry import Registry
from tests.cluster.matrix import HERE

PAGE = (Path(__file__).parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def types() -> list[tuple[NodeKind, str]]:
    registry = Registry.builtin()
    # rows of a memory sink can only be seen from the process itself
    return [(kind, id) for kind in NodeKind for id in registry.ids(kind) if id != "memory"]


@pytest.mark.parametrize(("kind", "id"), types(), ids=lambda value: str(value))
def test_every_node_type_is_in_the_matrix_and_on_the_page(kind: NodeKind, id: str) -> None:
    pipeline = yaml.safe_load((HERE / "matrix.yaml").read_text())
    used = {node["type"] for node in pipeline[kind.section].values()}
    assert id in used
    tested = PAGE.partition("## What is tested")[2]
    row = next(line for line in tested.splitlines() if line.startswith(f"| {kind.section} |"))
    assert f"`{id}`" in row
