"""The returned columns that the text of a script shows."""

from __future__ import annotations

import pytest

from streamling.transforms.script.returns import returned_names


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("row => ({ id: row.id, total: 1 })", ["id", "total"]),
        (
            "(row) => ({ ...row, total, 'with space': 2, [computed]: 3, 4: 5, get x() { return 1 } })",
            ["total", "with space"],
        ),
        ("function process(row) { if (row.a) return null; return { id: 1 } }", ["id"]),
        ("function process(row) { return row.a ? [{ a: 1 }, null] : (({ b: 2 })) }", ["a", "b"]),
        ("function helper() { return { no: 1 } }\nfunction process(row) { return helper() }", []),
        ("function process(row) { const f = () => ({ no: 1 }); return { yes: f().no } }", ["yes"]),
        ("const one = () => ({ no: 1 })\nconst process = (row) => ({ yes: one() })", ["yes"]),
        ("const a = () => ({ x: 1 })\nconst b = () => ({ y: 1 })", []),
        ("function invoke(row: Row): Out { return { id: row.id, more: 1 } as Out }", ["id", "more"]),
        ("function (row) { for (const x of row.l) { if (x) { return { deep: x } } } return row }", ["deep"]),
        ("row => row", []),
        ("this is not a script {{{", []),
        ("", []),
    ],
)
def test_names_in_returned_objects(script, names):
    assert returned_names(script) == names
