"""The program that runs in a sandbox: our driver, a loop generated for the columns of one node, and the user's
script."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Final

from streamling.transforms.script.engine import Sandbox, ScriptFailed, Value
from streamling.types.row_kind import OP_COLUMN

#: requests to the program: resend its text columns as JSON, and return the current row
RESEND_AS_JSON, CURRENT_ROW = b"=", b"?"
#: request to the program, followed by 32 hexadecimal digits: continue with other random numbers
RESEED = b"~"

#: globals that scripts do not get: engines should not differ, and clocks should not be precise
_REMOVED = (
    "performance",
    "setTimeout",
    "clearTimeout",
    "__timer_manager",
    "queueMicrotask",
    "WebAssembly",
    "SharedArrayBuffer",
    "Atomics",
    "Intl",
    "Temporal",
)
_NAMES = re.compile(r"\b(?:function\s*\*?|const|let|var)\s+([A-Za-z_$][\w$]*)")
#: a position in a script's text, as engines report it
SOURCE_POSITION = re.compile(r"(?:eval_script|<anonymous>):(\d+)(?::(\d+))?")
#: Engines name no file in their stacks. Our code is placed below these lines, which no script reaches: browser
#: functions, which a script calls, and the driver, which calls the script.
_PRELUDE_LINE, _DRIVER_LINE = 50_000, 52_000
#: name of the driver's errors about what a script is or returns
DRIVER_ERROR = "DriverError"

#: condition for storing a value of each kind without conversion
_FAST = {
    "int": 'typeof v === "number" && isSafeInteger(v)',
    "float": 'typeof v === "number"',
    "string": 'typeof v === "string"',
    "time": 'typeof v === "string"',
}
#: Rows of a call that are checked for undeclared columns. A simple script over 50 000 rows takes 188 ms with and
#: without this; checking all rows takes 269 ms.
_CHECKED_ROWS = 50
_NUMBERS = ("int", "float")
_NEWLINE = "\n"
#: properties that every object has: a row has such a column only if it is its own property
_OF_EVERY_OBJECT = frozenset(
    (
        *("constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
        *("toLocaleString", "toString", "valueOf", "__proto__"),
        *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    )
)


@dataclass(frozen=True)
class ScriptColumn:
    """A column of the input or output: its name and encoding."""

    name: str
    kind: str


@dataclass(frozen=True)
class Program:
    """A script for certain columns; `start` loads it into a sandbox."""

    #: JavaScript
    text: str
    inputs: tuple[ScriptColumn, ...]
    outputs: tuple[ScriptColumn, ...]

    def start(self, sandbox: Sandbox, seconds: float) -> Value:
        """Load the program and return the function that exchanges batches."""
        driver = sandbox.evaluate(self._driver, seconds)
        value, named = _functions(sandbox, self.text, seconds)
        return sandbox.apply(driver, [self.text, value, named], seconds)

    @cached_property
    def _driver(self) -> str:
        helpers = (files("streamling.transforms.script") / "driver.js").read_text(encoding="utf-8")
        settings = json.dumps({"removed": _REMOVED})
        loop = _loop(self.inputs, self.outputs)
        prelude = prelude_for(self.text)
        gap = _NEWLINE * (_DRIVER_LINE - _PRELUDE_LINE - prelude.count(_NEWLINE))
        driver = f"(() => {{ 'use strict'; const d = {helpers}({settings});\n{loop}\n}})()"
        return f"{_NEWLINE * _PRELUDE_LINE}{prelude}{gap}{driver}"


def _functions(sandbox: Sandbox, text: str, seconds: float) -> tuple[Value, Value]:
    """Return the value of the text if it is one expression, otherwise the functions that it declares, by name."""
    nothing = "[]"
    try:
        return sandbox.evaluate(f"({text}\n)", seconds), sandbox.evaluate(nothing, seconds)
    except ScriptFailed as failure:
        if failure.name != "SyntaxError":
            raise
        expression_failure = failure
    try:
        value = sandbox.evaluate(text, seconds)
    except ScriptFailed as failure:
        # The wrong form fails at its first line. A text that parses is the right form.
        is_right_form = failure.name != "SyntaxError" or line_of(failure) > line_of(expression_failure)
        raise (failure if is_right_form else expression_failure) from None
    names = dict.fromkeys(_NAMES.findall(text))
    return value, sandbox.evaluate(f"[{', '.join(map(_by_name, names))}]", seconds)


def _by_name(name: str) -> str:
    return f'["{name}", typeof {name} === "undefined" ? undefined : {name}]'


def line_of(failure: ScriptFailed) -> int:
    """Return the line of the script that a failure is about, or 0."""
    spot = SOURCE_POSITION.search("\n".join(_user_lines(failure.stack)))
    return int(spot[1]) if spot else 0


def user_frames(stack: str) -> list[str]:
    """Return the frames of a stack that are in the user's script, in one format for all engines."""
    return [
        SOURCE_POSITION.sub(lambda spot: f"line {spot[1]} of the script", line.strip())
        for line in _user_lines(stack)
        if SOURCE_POSITION.search(line)
    ]


def _user_lines(stack: str) -> Iterator[str]:
    """Yield the innermost frames, up to the first one of the driver; without those of functions that we provide."""
    for line in stack.splitlines():
        spot = SOURCE_POSITION.search(line)
        number = 0 if spot is None else int(spot[1])
        if number >= _DRIVER_LINE:
            return
        if number < _PRELUDE_LINE:
            yield line


# ── the loop ─────────────────────────────────────────────────────────────────────────────────────────────────


def _loop(inputs: Sequence[ScriptColumn], outputs: Sequence[ScriptColumn]) -> str:
    """Generate code for the columns: a loop over column descriptions was three times slower."""
    columns = range(len(inputs))
    every = range(len(outputs))
    numbers = [(f"a{n}", "F64", 8) for n, port in enumerate(outputs) if port.kind in _NUMBERS]
    flags = [(f"a{n}", "U8", 1) for n, port in enumerate(outputs) if port.kind == "bool"]
    texts = [n for n, port in enumerate(outputs) if port.kind not in (*_NUMBERS, "bool")]
    # in the order of the result; name, class of the view, bytes per row
    blocks = [*numbers, ("from", "U32", 4), *flags, *((f"n{n}", "U8", 1) for n in every)]
    names = [port.name for port in outputs if port.name not in _OF_EVERY_OBJECT]
    known = [*(port.name for port in outputs), OP_COLUMN]
    return f"""
const {{ ROWS, PARTS, N, AB, F64, U8, U32, Plain, isArray, isSafeInteger, getPrototypeOf, parse, split, join }} = d;
const {{ fill, bare, texts, wellFormed }} = d;
const NAMES = {json.dumps(names)};
const KNOWN = {{ __proto__: null, {", ".join(f"[{json.dumps(name)}]: true" for name in known)} }};
return function (source, value, named) {{
  const user = d.rowFunction(source, value, named);
  let room = 0, k = 0, i = 0, wide = "", known = Plain;
  {" ".join(f"let {name}, {name}_;" for name, _, _ in blocks)} {" ".join(f"let a{n};" for n in texts)}
  function reset(n) {{
    room = n; k = 0; i = 0; wide = "";
    {" ".join(f"{name}_ = new AB({size} * n); {name} = new {view}({name}_);" for name, view, size in blocks)}
    {" ".join(f"a{n} = bare([]);" for n in texts)}
  }}
  function grow() {{
    room = room * 2; let old;
    {" ".join(_growing(*block) for block in blocks)}
  }}
  function emit(o) {{
    const kind = getPrototypeOf(o);
    if (kind !== Plain && kind !== known) {{ if (!d.isRow(o)) reject(o); known = kind; }}
    if (k === room) grow();
    if (k < {_CHECKED_ROWS}) d.recordUnknown(o, KNOWN);
    let v;
    {_NEWLINE.join(_writer(n, port) for n, port in enumerate(outputs))}
    from[k++] = i;
  }}
  function reject(o) {{
    throw d.driverError("the function returned " + d.kindOf(o) + "; it must return an object (a row), null (no row) "
      + "or an array of objects");
  }}
  function other(o) {{
    if (o === null) return;
    if (!isArray(o)) reject(o);
    for (let j = 0; j < o.length; j++) {{
      const row = o[j];
      if (row === null) continue;
      if (typeof row !== "object" || isArray(row)) reject(row);
      emit(row);
    }}
  }}
  function packed() {{
    const data = new AB(k * {sum(size for _, _, size in blocks)});
    let at = 0;
    {" ".join(f"fill(new {v}(data, at, k), new {v}({x}_, 0, k)); at += {size} * k;" for x, v, size in blocks)}
    let text = '{{"rows":' + k + ',"wide":[' + wide + '],"lines":' + d.lines() + ',"dropped":' + d.dropped();
    text += ',"unknown":' + d.unknown() + "}}";
    {" ".join(f"text += PARTS + join(a{n}, ROWS);" for n in texts)}
    return [data, wellFormed(text)];
  }}
  function loop(data, text) {{
    if (text === "{CURRENT_ROW.decode()}") return [new AB(0), "" + i];
    if (text[0] === "{RESEED.decode()}") {{ d.reseed(text); return [new AB(0), ""]; }}
    if (text === "{RESEND_AS_JSON.decode()}") return [new AB(0), "[" + {_joined(texts)} + "]"];
    try {{
      const parts = split(text, PARTS), shape = parse(parts[0]), n = shape.rows;
      {" ".join(f'const c{n} = d.column("{inputs[n].kind}", shape.columns[{n}], n, data, parts);' for n in columns)}
      reset(n);
      for (; i < n; i++) {{
        const o = user({{ {", ".join(f"{_key(port.name)}: c{n}[i]" for n, port in enumerate(inputs))} }});
        if (typeof o === "object" && o !== null && !isArray(o)) emit(o); else other(o);
      }}
      d.checkPrototypes(NAMES);
      return packed();
    }} catch (error) {{ return d.failure(error, i); }}
  }}
  return loop;
}};"""


def _growing(name: str, view: str, size: int) -> str:
    return f"old = {name}; {name}_ = new AB({size} * room); {name} = new {view}({name}_); fill({name}, old);"


def _joined(texts: Sequence[int]) -> str:
    return ' + "," + '.join(f"texts(a{n})" for n in texts) or '""'


def _writer(n: int, port: ScriptColumn) -> str:
    name, kind = json.dumps(port.name), port.kind
    coerced = f'd.coerced("{kind}", v, {name})'
    value = f"d.own(o, {name})" if port.name in _OF_EVERY_OBJECT else f"o[{name}]"
    empty = "" if kind in _NUMBERS or kind == "bool" else f' a{n}[k] = "";'
    null = f"if (v === undefined || v === null) {{ n{n}[k] = 1;{empty} }}"
    if kind == "bool":
        return f"v = {value}; if (v === true) a{n}[k] = 1; else if (v !== false) {null} else a{n}[k] = {coerced};"
    slow = f"a{n}[k] = {coerced};"
    if kind == "int":
        beyond = f"""wide += (wide === "" ? "[" : ",[") + {n} + "," + k + ',"' + v + '"]';"""
        slow = f"{{ v = {coerced}; if (isSafeInteger(N(v))) a{n}[k] = N(v); else {beyond} }}"
    fast = f"if ({_FAST[kind]}) a{n}[k] = v; else " if kind in _FAST else ""
    return f"v = {value}; {fast}{null} else {slow}"


def _key(name: str) -> str:
    """Return a key of an object literal; a plain ``__proto__`` would set the prototype."""
    return f"[{json.dumps(name)}]" if name == "__proto__" else json.dumps(name)


# ── browser functions ────────────────────────────────────────────────────────────────────────────────────────────
# A sandbox is created for every batch, so it only gets the functions that a script mentions: all of them would add 6
# ms to the 8 ms that a batch costs anyway, `URL` alone 5 ms, the others 1 ms or less.

#: name → the files that define it, in order
_DEFINED_BY: Final = {
    "URL": ("url",),
    "URLSearchParams": ("url",),
    "TextEncoder": ("text",),
    "TextDecoder": ("text",),
    "structuredClone": ("errors", "clone"),
    "atob": ("errors", "base64"),
    "btoa": ("errors", "base64"),
    "DOMException": ("errors",),
}
_MENTION: Final = re.compile(rf"\b(?:{'|'.join(_DEFINED_BY)})\b")


def prelude_for(script: str) -> str:
    """Return JavaScript that defines what ``script`` mentions."""
    names = dict.fromkeys(file for name in _MENTION.findall(script) for file in _DEFINED_BY[name])
    return "".join(map(_source, names))


@cache
def _source(name: str) -> str:
    return (files("streamling.transforms.script") / "web" / f"{name}.js").read_text(encoding="utf-8")
