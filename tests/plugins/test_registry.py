from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from streamling.builtins import builtins
from streamling.errors import StreamlingError
from streamling.pipeline.model import NodeKind
from streamling.pipeline.options import BatchOptions, NodeOptions, ParallelOptions, SinkOptions, UpstreamOptions
from streamling.plugins.operators import Operator
from streamling.plugins.registry import Registry
from streamling.plugins.sinks import Sink
from tests.pipeline.plugins import BatchSink, BatchSinkOptions, FilterTransform, RandomSource


@pytest.mark.parametrize("kind", NodeKind)
def test_built_in_types(kind: NodeKind) -> None:
    registry = Registry.builtin()
    declared = [getattr(builtin, kind.section) for builtin in builtins()]
    ids = tuple(sorted(id for targets in declared for id in targets))
    assert ids
    assert registry.ids(kind) == ids
    for id in ids:
        found = registry.get(kind, id)
        assert found is not None
        assert (found.id, found.kind, found.plugin) == (id, kind, False)
        assert issubclass(found.options, NodeOptions)
        assert issubclass(found.operator, Operator)


def test_unknown_id_is_nothing() -> None:
    assert Registry.builtin().get(NodeKind.SINK, "file") is None


def test_only_used_modules_are_imported() -> None:
    code = (
        "import sys\n"
        "from streamling.plugins.registry import Registry\n"
        "from streamling.pipeline.model import NodeKind\n"
        "registry = Registry.builtin(); registry.ids(NodeKind.SINK)\n"
        "assert 'streamling.connectors.kafka.sink' not in sys.modules\n"
        "registry.get(NodeKind.SINK, 'kafka')\n"
        "assert 'streamling.connectors.kafka.sink' in sys.modules\n"
        "assert 'streamling.connectors.postgres.sink' not in sys.modules\n"
        "assert 'pyspark' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_plugin_is_found_under_its_id() -> None:
    registry = Registry.builtin()
    registry.register(NodeKind.SOURCE, "basic.random", RandomSource)
    found = registry.get(NodeKind.SOURCE, "basic.random")
    assert found is not None
    assert found.plugin
    assert found.operator is RandomSource
    assert "basic.random" in registry.ids(NodeKind.SOURCE)
    assert "basic.random" not in registry.ids(NodeKind.SINK)


def test_registries_share_nothing() -> None:
    Registry.builtin().register(NodeKind.SINK, "mine", BatchSink)
    assert Registry.builtin().get(NodeKind.SINK, "mine") is None


@pytest.mark.parametrize("id", ["print", "mine"])
def test_id_that_is_taken_is_refused(id: str) -> None:
    registry = Registry.builtin()
    registry.register(NodeKind.SINK, "mine", BatchSink)
    with pytest.raises(StreamlingError, match=f"there is already a sink '{id}'"):
        registry.register(NodeKind.SINK, id, BatchSink)


def registered(kind: NodeKind, operator: type[Operator[Any]]) -> type[NodeOptions]:
    registry = Registry.builtin()
    registry.register(kind, "x", operator)
    found = registry.get(kind, "x")
    assert found is not None
    return found.options


def test_plugin_gets_the_fields_of_its_kind_besides_its_own() -> None:
    options = registered(NodeKind.SINK, BatchSink)
    assert issubclass(options, BatchSinkOptions)
    assert issubclass(options, BatchOptions)
    assert issubclass(options, ParallelOptions)
    assert options.reserved_labels == {"type"}
    assert BatchSinkOptions.reserved_labels == frozenset()


def test_plugin_without_options_takes_any() -> None:
    options = registered(NodeKind.TRANSFORM, FilterTransform)
    assert issubclass(options, UpstreamOptions)
    assert options.model_config["extra"] == "allow"


def test_plugin_that_is_rebatched_already_stays_as_it_is() -> None:
    class Options(ParallelOptions, BatchOptions, SinkOptions):
        """Own."""

    class Own(Sink[Options]):
        pass

    Own.Options = Options
    assert set(registered(NodeKind.SINK, Own).model_fields) == set(Options.model_fields)
