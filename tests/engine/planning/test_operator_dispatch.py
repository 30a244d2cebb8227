"""The engine distinguishes operators by their methods and class attributes; where it needs the class, it asks once."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.paths import ROOT

from streamling.plugins import side_outputs, sinks, sources, streams, transforms
from streamling.plugins.operators import Operator

PROTOCOLS = {
    name
    for module in (sources, streams, transforms, sinks, side_outputs)
    for name, value in vars(module).items()
    if isinstance(value, type) and issubclass(value, Operator)
}


def _asked(tree: ast.AST) -> Iterator[str]:
    """The names of classes in ``isinstance``, ``issubclass`` and ``case``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            yield from (name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name))
        elif isinstance(node, ast.MatchClass):
            yield from (name.id for name in ast.walk(node.cls) if isinstance(name, ast.Name))


def test_the_class_of_an_operator_is_asked_for_once_per_distinction():
    files = (ROOT / "src" / "streamling" / "engine").rglob("*.py")
    asked = Counter(name for file in files for name in _asked(ast.parse(file.read_text())))
    assert {name: asked[name] for name in PROTOCOLS if asked[name]} == {
        "AnySource": 1,  # what `make_sources` made
        "SideOutput": 1,  # which operators `make_side_outputs` makes
        "LookupTable": 1,  # which side outputs SQL can query
        **dict.fromkeys(("Source", "StreamedSource"), 1),  # kinds of flows
        **dict.fromkeys(("Transform", "Sink", "FrameTransform", "FrameSink"), 1),  # kinds of steps
    }
