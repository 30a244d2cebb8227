"""Attempts to escape the sandbox or to exhaust it: each ends within its limit, in a clear error or harmlessly, and the
rows of the next batch are not affected."""

import threading

import pyarrow as pa
import pytest

from streamling.errors import StreamlingError
from tests.transforms.script.conftest import LIMITS, TIGHT, Scripts

ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": "b"}]

#: what is tried in the function's body, and the error message
EXHAUSTING = {
    "endless loop": ("while (true);", "ran longer than 0.5 s"),
    "endless loop that catches everything": ("for (;;) try { while (true); } catch {} finally { continue }", "ran longer"),
    "endless iterator": ("const endless = { *[Symbol.iterator]() { for (;;) yield 1 } }; for (const n of endless);", "ran longer"),
    "regular expression bomb": ("/^(a|a?)+$/.test('a'.repeat(40) + 'b')", "ran longer"),
    "getter that never ends": ("return { get id() { for (;;); } }", "ran longer"),
    "proxy that never ends": ("return new Proxy({}, { get() { for (;;); } })", "ran longer"),
    "toString that never ends": ("return { note: { toJSON() { for (;;); } } }", "ran longer"),
    "memory bomb of arrays": ("const all = []; for (;;) all.push(new Array(10_000).fill(all.length))", "memory|longer"),
    "memory bomb of one text": ("let t = 'x'.repeat(1 << 20); for (;;) t = t + t + t.slice(1)", "memory|too long|length|longer"),
    "memory bomb of a map": ("const m = new Map(); for (let n = 0; ; n++) m.set(n, 'v' + n)", "memory|longer"),
    "huge output": ("return Array.from({ length: 1e9 }, () => row)", "memory|longer"),
    "huge field": ("return { id: 1, note: 'x'.repeat(2 ** 28) }", "memory|too long|longer"),
    "deep recursion": ("const f = (n) => f(n + 1) + 1; f(0)", "too deeply"),
    "deep recursion in a getter": ("return { get id() { return this.id } }", "too deeply"),
    "deep nesting": ("let o = {}; for (let n = 0; n < 1e5; n++) o = { o }; return { note: o }", "too deeply|memory|longer"),
    "endless promise chain": ("const next = () => Promise.resolve().then(next); next(); return next()", "promise"),
    "bigint bomb": ("let n = 3n; for (;;) n = n ** 3n", "longer|too large|too big|Maximum|memory"),
    "json bomb": ("let a = ['x'.repeat(1000)]; for (let n = 0; n < 60; n++) a = [a, a]; return { note: JSON.stringify(a) }", "longer|memory|length|too long"),
    "sort that never ends": ("Array.from({ length: 1000 }, (_, n) => n).sort(() => { for (;;); })", "ran longer"),
    "source code bomb": ("return { note: eval('('.repeat(1e6)) }", "too deeply|memory|SyntaxError|longer"),
    "exit of the process": ("process.exit(1)", "TypeError"),
    "module import": ("return require('fs')", "ReferenceError"),
    "shared memory": ("return { id: Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0) }", "ReferenceError"),
    "web assembly": ("return { id: new WebAssembly.Memory({ initial: 60000 }) }", "ReferenceError"),
}  # fmt: skip


#: V8 cannot end a loop in a built-in function, and does not count buffers; wasmtime ends and counts everything
ONLY_IN_WEBASSEMBLY = {
    "endless loop in a built-in": (
        "Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)",
        "ran longer than 0.5 s",
    ),
    "endless loop in another built-in": ("new Array(2 ** 32 - 1).join('x')", "ran longer than 0.5 s"),
    "memory bomb of a buffer": ("return { id: new Uint8Array(1 << 30).fill(1)[3] }", "more than 32 MiB of memory"),
}


@pytest.mark.parametrize("attempt", ONLY_IN_WEBASSEMBLY)
def test_the_limits_of_webassembly_cannot_be_bypassed(engines, attempt):
    tight, scripts = Scripts(engines("quickjs", TIGHT), TIGHT), Scripts(engines("quickjs", LIMITS), LIMITS)
    body, reason = ONLY_IN_WEBASSEMBLY[attempt]
    with pytest.raises(StreamlingError, match=reason):
        tight.rows(f"function process(row) {{ {body} }}", ROWS)
    assert scripts.rows("row => row", ROWS) == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("attempt", EXHAUSTING)
def test_exhaustion_ends_in_a_clear_error(tight, scripts, attempt):
    body, reason = EXHAUSTING[attempt]
    limited = tight if "longer" in reason else scripts
    with pytest.raises(StreamlingError, match=reason) as failure:
        limited.rows(f"function process(row) {{ {body} }}", ROWS)
    assert not failure.value.internal
    assert "of the batch" in str(failure.value)
    assert scripts.rows("row => row", ROWS) == ROWS


#: what is tried at the top of the script or in the body, and the rows that are still returned
HARMLESS = {
    "no process, files, network, environment": (
        "row => ({ id: ['process', 'require', 'module', 'fetch', 'XMLHttpRequest', 'Deno', 'Bun', 'std', 'os', 'WebSocket',"
        " '__dirname', 'Buffer', 'navigator', 'Worker'].filter(name => globalThis[name] !== undefined).length })", {"id": 0}),
    "no timers": ("row => ({ id: typeof setTimeout === 'function' ? 1 : 0 })", {"id": 0}),
    "no precise clock": ("row => ({ id: typeof performance === 'undefined' ? 0 : 1 })", {"id": 0}),
    "eval and Function see nothing else": (
        "row => ({ id: new Function('return typeof row')() === 'undefined' && eval('1 + 1') === 2 ? 0 : 1 })", {"id": 0}),
    "the constructor's constructor is as blind": (
        "row => ({ id: row.constructor.constructor('return typeof process')() === 'undefined' ? 0 : 1 })", {"id": 0}),
    "a dynamic import leads nowhere": ("row => { import('fs').catch(() => {}); return { id: 0 } }", {"id": 0}),
    "pollution of prototypes": (
        "Object.prototype.other = 'dirty'; Array.prototype.join = () => 'dirty'; String.prototype.split = () => ['dirty'];\n"
        "function process(row) { return { id: 0 } }", {"id": 0}),
    "replaced built-ins": (
        "JSON.parse = JSON.stringify = () => 'dirty'; Array.isArray = () => true; Number.isSafeInteger = () => true;\n"
        "Float64Array = Uint8Array = Uint32Array = ArrayBuffer = undefined; globalThis.BigInt = undefined;\n"
        "function process(row) { return { id: 0, note: 'b' } }", {"id": 0, "note": "b"}),
    "frozen world": ("Object.freeze(Array.prototype); Object.freeze(Object.prototype);\nfunction process(row) { return { id: 0 } }", {"id": 0}),
    "symbols of iteration": (
        "Array.prototype[Symbol.iterator] = function* () { yield 'dirty' };\nfunction process(row) { return { id: 0 } }", {"id": 0}),
    "a getter on the global object": (
        "Object.defineProperty(globalThis, 'undefined', {}); function process(row) { return { id: 0 } }", {"id": 0}),
    "the caller is out of reach": (
        "function process(row) { try { return { id: process.caller === null ? 0 : 1 } } catch { return { id: 0 } } }", {"id": 0}),
    "closing the wrapper": ("function process(row) { return { id: 0 } }\n//) })()", {"id": 0}),
    "a microtask that never ends is never run": (
        "row => { const again = () => Promise.resolve().then(again); again(); return { id: 0 } }", {"id": 0}),
}  # fmt: skip


@pytest.mark.parametrize("attempt", HARMLESS)
def test_the_host_cannot_be_reached(scripts, attempt):
    script, expected = HARMLESS[attempt]
    schema = pa.schema([("id", pa.int64()), ("note", pa.string())])
    made = scripts.batch(script, pa.RecordBatch.from_pylist(ROWS), schema).to_pylist()
    assert made == [{"id": None, "note": None, **expected}] * 2
    assert scripts.rows("row => row", ROWS) == ROWS


@pytest.mark.slow
def test_stopping_one_lane_does_not_stop_another(engines):
    """Two sandboxes at once: the endless one ends by its limit, the other one finishes."""
    slow, quick = Scripts(engines("quickjs", TIGHT), TIGHT), Scripts(engines("quickjs", LIMITS), LIMITS)
    failed = []

    def endless() -> None:
        try:
            slow.rows("() => Array.prototype.includes.call({ length: 2 ** 53 - 1 }, 1)", ROWS)
        except StreamlingError as error:
            failed.append(error)

    thread = threading.Thread(target=endless)
    thread.start()
    while thread.is_alive():
        assert quick.rows("row => row", ROWS) == ROWS
    thread.join()
    assert len(failed) == 1
