"""Writes the rows that a case has found into its test file as the expectation (`streamling test --update`).

Only the text of the expected rows is replaced. Everything else in the file stays as it is, byte for byte; comments
between the replaced rows are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import yaml

from streamling.dev.pipeline_tests.model import Expectation, Row
from streamling.dev.pipeline_tests.rows import plain_rows
from streamling.dev.pipeline_tests.written_rows import write_row
from streamling.errors import StreamlingError

if TYPE_CHECKING:
    from streamling.dev.pipeline_tests.run_case import CaseResult


def record(result: CaseResult) -> bool:
    """Record the rows of a case that ended as expected; return whether the file has changed."""
    if result.error is not None or result.substitutes is None or result.pipeline is None:
        return False
    case, path = result.case.case, result.case.file.path
    found = {difference.node for difference in result.differences}
    outdated = [name for name, expected in case.expect.items() if expected is None or name in found]
    sinks = [] if case.expect or case.error else [sink.name for sink in result.pipeline.sinks]
    if not outdated and not sinks:
        return False
    recorded = {name: _rows(result, name, case.expect.get(name)) for name in (*outdated, *sinks)}
    text = path.read_text(encoding="utf-8")
    if sinks:
        text = _with_expect(text, result.case.name, recorded)
    for name in outdated:
        text = _with_rows(text, result.case.name, name, recorded[name])
    path.write_text(text, encoding="utf-8")
    result.differences[:] = [difference for difference in result.differences if difference.node is None]
    return True


def _rows(result: CaseResult, node: str, expected: Expectation | None) -> list[Row]:
    assert result.substitutes is not None
    assert result.pipeline is not None
    table = result.substitutes.rows(result.pipeline, node)
    rows = [] if table is None else plain_rows(table)
    if expected is None or expected.columns == "exact" or not expected.rows:
        return rows
    names = {name for row in expected.rows for name in row}
    return [{name: value for name, value in row.items() if name in names} for row in rows]


# ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────


def _with_rows(text: str, case: str, node: str, rows: Sequence[Row]) -> str:
    """Return ``text`` with other rows below ``cases.<case>.expect.<node>``."""
    parent = _mapping(text, ("cases", case, "expect"))
    key, value = _entry(parent, node)
    if isinstance(value, yaml.MappingNode):
        if not _has(value, "rows"):
            raise StreamlingError.user(
                f"'{node}' of the case '{case}' has no `rows` to update", remedy="add `rows: []`"
            )
        parent = value
        key, value = _entry(parent, "rows")
    in_braces = bool(parent.flow_style)
    written = _flow(rows) if in_braces else _block(rows, _indent(key, value))
    return f"{text[: key.end_mark.index]}:{written}{text[_end(value) :]}"


def _with_expect(text: str, case: str, recorded: dict[str, list[Row]]) -> str:
    """Return ``text`` with a new ``expect`` at the end of the case."""
    node = _mapping(text, ("cases", case))
    if node.flow_style:
        raise StreamlingError.user(
            f"the case '{case}' is written in braces, to which --update cannot add rows",
            remedy="write its fields on lines of their own",
        )
    indent = " " * node.value[0][0].start_mark.column
    lines = [f"{indent}expect:"]
    for name, rows in recorded.items():
        lines.append(f"{indent}  {name}:{_block(rows, len(indent) + 4)}")
    end = _end(node)
    return text[:end] + "\n" + "\n".join(lines) + text[end:]


def _flow(rows: Sequence[Row]) -> str:
    return f" [{', '.join(map(write_row, rows))}]"


def _block(rows: Sequence[Row], indent: int) -> str:
    return "".join(f"\n{' ' * indent}- {write_row(row)}" for row in rows) if rows else " []"


def _indent(key: yaml.Node, value: yaml.Node) -> int:
    """Return the column of the dashes."""
    is_block = isinstance(value, yaml.SequenceNode) and not value.flow_style
    return int(value.start_mark.column if is_block else key.start_mark.column + 2)


def _mapping(text: str, path: Sequence[str]) -> yaml.MappingNode:
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    for name in path:
        assert isinstance(node, yaml.MappingNode)
        node = _entry(node, name)[1]
    assert isinstance(node, yaml.MappingNode)
    return node


def _has(mapping: yaml.MappingNode, name: str) -> bool:
    return any(key.value == name for key, _ in mapping.value)


def _entry(mapping: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node]:
    return next((key, value) for key, value in mapping.value if key.value == name)


def _end(node: yaml.Node) -> int:
    """Return where the text of ``node`` ends; PyYAML's mark of a block is after the comments and empty lines that
    follow."""
    if isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
