"""Valid scripts, their results, and the messages of their failures."""

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from streamling.transforms.script.console import Console

ROWS = [{"id": 1, "name": "ann", "_gs_op": "i"}, {"id": 2, "name": "bob", "_gs_op": "u"}]


def test_an_object_is_a_row(scripts):
    assert scripts.rows("function process(row) { return { ...row, name: row.name + '!' } }", ROWS) == [
        {"id": 1, "name": "ann!", "_gs_op": "i"},
        {"id": 2, "name": "bob!", "_gs_op": "u"},
    ]


def test_the_input_may_be_changed_and_returned(scripts):
    assert scripts.rows("function process(row) { row.id *= 2; return row }", ROWS)[1]["id"] == 4


def test_null_drops_the_row(scripts):
    assert [row["id"] for row in scripts.rows("row => row.id === 1 ? null : row", ROWS)] == [2]


def test_all_rows_may_be_dropped(scripts):
    assert scripts.rows("() => null", ROWS) == []


def test_an_array_is_several_rows_without_its_nulls(scripts):
    made = scripts.rows("row => row.id === 1 ? [] : [row, null, { id: 7 }, { id: 8 }]", ROWS)
    assert made == [
        {"id": 2, "name": "bob", "_gs_op": "u"},
        {"id": 7, "name": None, "_gs_op": "u"},
        {"id": 8, "name": None, "_gs_op": "u"},
    ]


def test_one_row_may_become_many(scripts):
    made = scripts.rows("row => Array.from({ length: 1000 }, (_, n) => ({ id: n, name: 'x' + n }))", ROWS)
    assert len(made) == 2000
    assert made[-1] == {"id": 999, "name": "x999", "_gs_op": "u"}


@pytest.mark.parametrize(
    ("returned", "kind"),
    [("", "undefined"), ("5", "a number"), ("'x'", "a string"), ("true", "a boolean"), ("[[1]]", "an array"),
     ("[undefined]", "undefined"), ("[3]", "a number"), ("Promise.resolve(row)", "a promise"),
     ("() => 1", "a function"), ("10n", "a bigint")],
)  # fmt: skip
def test_anything_else_is_rejected_by_its_kind(scripts, returned, kind):
    with pytest.raises(StreamlingError, match=f"returned {kind}; it must return an object") as failure:
        scripts.rows(f"function process(row) {{ return {returned} }}", ROWS)
    assert "row 1 of the batch" in str(failure.value)
    assert not failure.value.internal


def test_the_row_kind_of_the_input_wins(scripts):
    made = scripts.rows("row => ({ ...row, _gs_op: 'd' })", ROWS)
    assert [row["_gs_op"] for row in made] == ["i", "u"]


def test_the_script_sees_the_row_kind(scripts):
    made = scripts.rows("row => ({ ...row, name: row._gs_op })", ROWS)
    assert [row["name"] for row in made] == ["i", "u"]


def test_rows_without_a_kind_are_inserts(scripts):
    made = scripts.rows("row => row", [{"id": 1}], {"id": pa.int64(), "_gs_op": pa.string()})
    assert made == [{"id": 1, "_gs_op": "i"}]


@pytest.mark.parametrize(
    "script",
    [
        "function process(row) { return { id: 5 } }",
        "function invoke(row) { return { id: 5 } }",
        "function whatever(row) { return { id: 5 } }",
        "function (row) { return { id: 5 } }",
        "(row) => ({ id: 5 })",
        "  // first\n  row => ({ id: 5 }) // last",
        "function process(row) { return { id: 5 } };",
        "const five = 5;\nfunction process(row) { return { id: five } }",
        "function helper() { return 5 }\nfunction process(row) { return { id: helper() } }",
        "function process(row) { return { id: helper() } }\nfunction helper() { return 5 }",
        "function process() { return { id: 1 } }\nfunction invoke() { return { id: 5 } }",
        "function invoke() { return { id: 1 } }\nfunction process() { return { id: 5 } }",
        "const process = row => ({ id: 5 });",
        "const only = row => ({ id: 5 });",
        "const five = 5;\nrow => ({ id: five })",
        "class Five { get value() { return 5 } }\nfunction process() { return { id: new Five().value } }",
    ],
)
def test_which_function_is_called(scripts, script):
    assert scripts.rows(script, [{"id": 1}]) == [{"id": 5}]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("1 + 1", "it defines no function"),
        ("const a = 1;", "it defines no function"),
        ("function one() {}\nfunction two() {}", r"it defines several functions \(one, two\)"),
    ],
)
def test_a_script_without_a_function_is_rejected(scripts, script, message):
    with pytest.raises(StreamlingError, match=message):
        scripts.rows(script, ROWS)


def test_missing_and_undefined_columns_are_null(scripts):
    made = scripts.rows("row => ({ a: undefined })", ROWS, {"a": pa.int64(), "b": pa.string(), "c": pa.bool_()})
    assert made == [{"a": None, "b": None, "c": None}] * 2


def test_undeclared_columns_are_dropped(scripts):
    assert scripts.rows("row => ({ ...row, more: 1 })", ROWS) == ROWS


@pytest.mark.parametrize("name", ["with space", 'quo"te', "__proto__", "constructor", "toString", "é", "a.b", "1", ""])
def test_any_column_name_works(scripts, name):
    made = scripts.rows(
        "row => { const [key] = Object.keys(row); return { ...row, [key]: row[key] + 1 } }", [{name: 1}]
    )
    assert made == [{name: 2}]


def test_an_error_names_row_line_cause_stack_and_input(scripts):
    script = """function check(row) {
  if (row.id === 2) {
    throw new RangeError('too much: ' + row.name)
  }
  return row
}
function process(row) {
  return check(row)
}"""
    with pytest.raises(StreamlingError) as failure:
        scripts.rows(script, ROWS)
    assert str(failure.value).splitlines() == [
        "row 2 of the batch: the script failed in line 3: RangeError: too much: bob",
        "  at check (line 3 of the script)",
        "  at process (line 8 of the script)",
        '  input: {"id":2,"name":"bob","_gs_op":"u"}',
    ]


@pytest.mark.parametrize(
    ("thrown", "message"),
    [("42", "the script failed: 42"), ("null", "it threw null"), ("'text'", "the script failed: text"),
     ("{ a: 1 }", 'the script failed: {"a":1}'), ("{ get message() { throw 1 } }", "cannot be shown")],
)  # fmt: skip
def test_anything_can_be_thrown(scripts, thrown, message):
    with pytest.raises(StreamlingError) as failure:
        scripts.rows(f"function process(row) {{ throw {thrown} }}", ROWS)
    assert message in str(failure.value)


def test_only_lines_of_the_script_are_named(scripts):
    with pytest.raises(StreamlingError) as failure:
        scripts.rows("row => {\n  row.name = { row }; row.name.self = row.name;\n  return row }", ROWS)
    first, *others = str(failure.value).splitlines()
    assert "the script failed: TypeError: " in first, "nothing of the script was running"
    assert [line for line in others if line.startswith("  at ")] == []


def test_a_long_input_is_truncated(scripts):
    with pytest.raises(StreamlingError) as failure:
        scripts.rows("() => { throw new Error('no') }", [{"text": "x" * 5000}])
    shown = str(failure.value).splitlines()[-1]
    assert shown.endswith("…")
    assert len(shown) < 1100


def test_row_numbers_count_through_a_large_batch(scripts):
    rows = [{"id": n} for n in range(12_000)]
    with pytest.raises(StreamlingError, match="row 11501 of the batch"):
        scripts.rows("row => { if (row.id === 11500) throw new Error('here'); return row }", rows)


def test_the_row_that_crashes_a_sandbox_is_named(scripts):
    rows = [{"id": n} for n in range(300)]
    script = "const f = (n) => f(n + 1) + 1;\nfunction process(row) { return row.id === 250 ? f(0) : row }"
    with pytest.raises(StreamlingError, match=r"row 251 of the batch: .*functions are nested too deeply") as failure:
        scripts.rows(script, rows)
    assert '{"id":250}' in str(failure.value)


def test_a_typescript_error_has_the_users_line(scripts):
    script = """interface Row {
  id: number;
  name?: string;
}
type Result = Row | null;

enum Level { Low = 1, High }

function process(row: Row): Result {
  const level: Level = Level.High;
  throw new Error(`level ${level}`);
}"""
    with pytest.raises(StreamlingError, match="in line 11: Error: level 2"):
        scripts.rows(script, ROWS, ts=True)


def test_no_state_is_left_for_the_next_batch(scripts):
    batch = pa.RecordBatch.from_pylist([{"n": 0}])
    script = """let count = 0;
function process(row) {
  count += 1;
  globalThis.seen = (globalThis.seen ?? 0) + 1;
  process.calls = (process.calls ?? 0) + 1;
  Array.prototype.calls = (Array.prototype.calls ?? 0) + 1;
  return { n: count + globalThis.seen + process.calls + Array.prototype.calls };
}"""
    runner = scripts.runner(script, batch.schema, batch.schema)
    assert [runner.run(batch).to_pylist() for _ in range(3)] == [[{"n": 4}]] * 3


def test_every_batch_gets_other_random_numbers(scripts):
    batch = pa.RecordBatch.from_pylist([{"n": 0.0}] * 3)
    runner = scripts.runner("() => ({ n: Math.random() })", batch.schema, batch.schema)
    found = [row["n"] for _ in range(20) for row in runner.run(batch).to_pylist()]
    assert len(set(found)) == 60
    assert all(0 <= number < 1 for number in found)
    assert 0.3 < sum(found) / 60 < 0.7


def test_a_script_may_replace_the_random_numbers(scripts):
    batch = pa.RecordBatch.from_pylist([{"n": 0.0}])
    runner = scripts.runner("Math.random = () => 0.5; () => ({ n: Math.random() })", batch.schema, batch.schema)
    assert [runner.run(batch).to_pylist() for _ in range(3)] == [[{"n": 0.5}]] * 3


def test_memory_that_a_batch_has_used_is_free_for_the_next(scripts):
    batch = pa.RecordBatch.from_pylist([{"n": 0}])
    script = "const kept = []; row => { for (let i = 0; i < 3e5; i++) kept.push([i]); return { n: kept.length } }"
    runner = scripts.runner(script, batch.schema, batch.schema)
    assert [runner.run(batch).to_pylist() for _ in range(4)] == [[{"n": 300_000}]] * 4


def test_the_batch_after_an_error_is_not_affected(scripts):
    batches = [pa.RecordBatch.from_pylist([{"n": n}]) for n in (1, 2, 3)]
    script = "let calls = 0; row => { calls++; if (row.n === 2) throw new Error('two'); return { n: calls } }"
    runner = scripts.runner(script, batches[0].schema, batches[0].schema)
    assert runner.run(batches[0]).to_pylist() == [{"n": 1}]
    with pytest.raises(StreamlingError, match="two"):
        runner.run(batches[1])
    assert runner.run(batches[2]).to_pylist() == [{"n": 1}]


def test_rows_of_one_batch_share_what_the_script_keeps(scripts):
    rows = [{"n": 0}] * 12_000
    assert scripts.rows("let n = 0; function process() { return { n: ++n } }", rows)[-1] == {"n": 12_000}


def test_console_output_is_logged_with_a_limit(scripts):
    scripts.rows("row => { console.log('row', row.id, { a: 1n }); return row }", [{"id": n} for n in range(500)])
    assert scripts.lines[0] == 'row 0 {"a":"1"}'
    assert len(scripts.lines) == 21
    assert scripts.lines[-1] == "the script logs too many lines; skipping the rest for up to 60 s"


def test_console_has_levels_and_shows_errors(scripts):
    text = """row => {
      console.debug("d"); console.info("i"); console.warn("w", 1, [2]); console.error(new TypeError("e"));
      console.assert(row.id === 1, "as expected"); console.assert(false, "not", "so"); console.table({ a: 1 });
      console.group("g"); console.groupEnd(); console.time("t"); console.timeEnd("t"); console.log("x".repeat(5000));
      return row }"""
    scripts.rows(text, [{"id": 1}])
    assert scripts.levels == [10, 20, 30, 40, 40, 20, 20, 20]
    assert scripts.lines[:7] == ["d", "i", "w 1 [2]", "TypeError: e", "Assertion failed not so", '{"a":1}', "g"]
    assert scripts.lines[7] == "x" * 999 + "…"


def test_console_is_limited_per_minute():
    now, lines = [0.0], []
    console = Console(lambda level, line: lines.append(line), now=lambda: now[0])
    for number in range(150):
        console.write(f"i{number}")
    assert lines[99:] == ["99", "the script logs too many lines; skipping the rest for up to 60 s"]
    now[0] = 61
    console.write("wagain")
    assert lines[101:] == ["skipped 50 lines from the console", "again"]


@pytest.mark.parametrize("text", ["a\x01b", "\x02", "\x01", "", "\x00", "é😀\u2028", 'quo"te\\', "x" * 100_000, "!"])
def test_any_text_survives(scripts, text):
    rows = [{"t": text}, {"t": None}, {"t": text}]
    assert scripts.rows("row => row", rows) == rows


def test_a_lone_surrogate_becomes_a_replacement_character(scripts):
    assert scripts.rows("row => ({ t: row.t[0] + 'x' })", [{"t": "😀"}]) == [{"t": "\ufffdx"}]
    assert scripts.rows("row => ({ t: row.t[0] + '\\u0001' })", [{"t": "😀"}]) == [{"t": "\ufffd\x01"}]


def test_a_syntax_error_names_its_line(scripts):
    with pytest.raises(StreamlingError, match="in line 3: SyntaxError"):
        scripts.rows("function process(row) {\n  const a = 1;\n  return row +* a;\n}", ROWS)
    with pytest.raises(StreamlingError, match="in line 2: SyntaxError"):
        scripts.rows("(row) => {\n  return row +* 2;\n}", ROWS)


# ── which line is wrong ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("function process(row) {\n  // missing\n  const s = 'missing'\n  return missing(row)\n}", 4),
        ("row => {\n  const a = row.missing\n\n  return { id: `${\n missing}` }\n}", 5),
        ("function process(row) {\n  const a = 1\n  return row.name.first.letter\n}", 3),
        ("const y = 1\nfunction process(row) { return row }\nconst x = y + missing", 3),
        ("const x = missing\nfunction process(row) { return row }", 1),
        ("function f() {\n  return missing\n}\nfunction process(row) {\n  return f()\n}", 2),
    ],
)
def test_an_error_about_a_name_is_in_the_line_of_the_name(scripts, script, line):
    with pytest.raises(StreamlingError, match=rf"the script failed in line {line}: (Reference|Type)Error"):
        scripts.rows(script, [{"id": 1, "name": "a"}])
