// Runs around the user's function: columns in, rows through the function, columns out.
// Evaluated before the user's script, so that it uses nothing that the script replaces (JSON, Array.prototype, …).
(function (settings) {
  "use strict";
  const ROWS = "\u0001", PARTS = "\u0002", MOST_LINES = 20, LONGEST_LINE = 1000;
  const MOST_UNKNOWN = 20, LONGEST_NAME = 100;
  const { parse, stringify } = JSON;
  const { getPrototypeOf, setPrototypeOf, keys } = Object;
  const { isArray } = Array;
  const { isSafeInteger, isFinite, isInteger } = Number;
  const N = Number, S = String, B = BigInt, P = Promise, F64 = Float64Array, U8 = Uint8Array, U32 = Uint32Array, D = Date;
  const AB = ArrayBuffer, Flag = Boolean, Plain = Object.prototype;
  const truncate = Math.trunc;
  const uncurried = Function.prototype.bind.bind(Function.prototype.call);
  const split = uncurried(S.prototype.split), join = uncurried(Array.prototype.join), test = uncurried(RegExp.prototype.test);
  const includes = uncurried(S.prototype.includes), trim = uncurried(S.prototype.trim), cut = uncurried(S.prototype.slice);
  const lower = uncurried(S.prototype.toLowerCase), wellFormed = uncurried(S.prototype.toWellFormed);
  const position = uncurried(S.prototype.lastIndexOf), sourceOf = uncurried(Function.prototype.toString);
  const isoDate = uncurried(D.prototype.toISOString), millis = uncurried(D.prototype.getTime);
  const padded = uncurried(S.prototype.padStart), inBase = uncurried(N.prototype.toString);
  const codeAt = uncurried(S.prototype.charCodeAt), hasOwn = uncurried(Plain.hasOwnProperty);
  const fill = uncurried(getPrototypeOf(U8.prototype).set);
  const INTEGER = /^[+-]?[0-9]+$/, NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i, HEX = /^([0-9a-f]{2})*$/i;
  const EXPONENT = /e/i, MOST_DIGITS = 400;

  // An array whose elements setters on Array.prototype cannot intercept.
  function bare(array) { return setPrototypeOf(array, null); }
  // JSON of an array of texts, whatever the script has done to toJSON.
  function texts(array) {
    let text = "[";
    for (let i = 0; i < array.length; i++) text += (i ? "," : "") + stringify(array[i]);
    return text + "]";
  }

  for (const name of settings.removed) {
    if (!Reflect.deleteProperty(globalThis, name)) try { globalThis[name] = undefined; } catch {}
  }

  // ── random numbers: the engine's until there is a seed, then xoshiro128** ──────────────────────────────────
  const { random } = Math, { imul } = Math, parseInt = N.parseInt;
  let a = 0, b = 0, c = 0, e = 0, isSeeded = false;
  const next = () => {
    const product = imul(b, 5), result = imul(product << 7 | product >>> 25, 9) >>> 0, shifted = b << 9;
    c ^= a; e ^= b; b ^= c; a ^= e; c ^= shifted; e = e << 11 | e >>> 21;
    return result;
  };
  // 53 bits of two numbers
  Math.random = ({ random: () => isSeeded ? ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992 : random() }).random;
  const reseed = (text) => {
    const part = (n) => parseInt(cut(text, 1 + 8 * n, 9 + 8 * n), 16) | 0;
    a = part(0); b = part(1); c = part(2); e = part(3) | 1; isSeeded = true;
  };

  // ── console: a few lines per call go to the log ────────────────────────────────────────────────────────────
  let lines = bare([]), dropped = 0;
  // the first letter of a line is its level
  const at = (level) => (...values) => {
    if (lines.length >= MOST_LINES) { dropped++; return; }
    let line = level;
    for (let i = 0; i < values.length && line.length < LONGEST_LINE; i++) line += (i ? " " : "") + logged(values[i]);
    lines[lines.length] = line.length > LONGEST_LINE ? cut(line, 0, LONGEST_LINE) + "…" : line;
  };
  const logged = (value) => {
    try { if (value instanceof Error) return S(value.name) + ": " + S(value.message); } catch {}
    return shown(value);
  };
  const info = at("i"), debug = at("d"), error = at("e"), nothing = () => {};
  globalThis.console = {
    log: info, info, dir: info, table: info, debug, trace: debug, warn: at("w"), error,
    assert: (condition, ...values) => { if (!condition) error("Assertion failed", ...values); },
    group: info, groupCollapsed: info, groupEnd: nothing, time: nothing, timeEnd: nothing, timeLog: nothing,
    count: nothing, countReset: nothing, clear: nothing,
  };

  // ── undeclared columns ────────────────────────────────────────────────────────────────────────────────────
  let unknown = bare([]);
  const recordUnknown = (row, known) => {
    try {
      const names = keys(row);
      for (let i = 0; i < names.length && unknown.length < MOST_UNKNOWN; i++) {
        if (known[names[i]] === true) continue;
        let seen = false;
        for (let j = 0; j < unknown.length; j++) if (unknown[j] === names[i]) seen = true;
        if (!seen) unknown[unknown.length] = cut(names[i], 0, LONGEST_NAME);
      }
    } catch {}
  };

  // ── values that a JavaScript number cannot hold ────────────────────────────────────────────────────────────
  // a number in arithmetic, all its digits as text
  class Decimal extends N {
    #digits;
    constructor(digits) { super(digits); this.#digits = digits; }
    static digits(value) { return value.#digits; }
    toString() { return this.#digits; }
    toJSON() { return this.#digits; }
    [Symbol.toPrimitive](hint) { return hint === "string" ? this.#digits : N(this.#digits); }
  }
  const digitsOf = Decimal.digits;
  const isDecimal = (value) => value instanceof Decimal;
  const integer = (text) => { const value = N(text); return isSafeInteger(value) ? value : B(text); };
  const significant = (text) => {
    let count = 0, zeros = 0, seen = false;
    for (let i = 0; i < text.length; i++) {
      const code = codeAt(text, i);
      if (code < 48 || code > 57) continue;
      if (code === 48) { if (seen) zeros++; } else { count += zeros + 1; zeros = 0; seen = true; }
    }
    return count;
  };
  // 15 digits always survive a round trip through a double
  const decimal = (text) => (significant(text) <= 15 ? N(text) : new Decimal(text));
  // inside nested values a text that starts with ROWS is a tagged value
  const revive = (key, value) => {
    if (typeof value !== "string" || value[0] !== ROWS) return value;
    const rest = cut(value, 2);
    return value[1] === "i" ? integer(rest) : value[1] === "d" ? decimal(rest) : value[1] === "f" ? N(rest) : rest;
  };
  const nested = (text) => (includes(text, "\\u0001") ? parse(text, revive) : parse(text));
  const replaced = function (key, value) {
    const original = this[key];
    if (typeof original === "bigint") return ROWS + "i" + original;
    if (isDecimal(original)) return ROWS + "d" + digitsOf(original);
    if (typeof value === "number" && !isFinite(value)) return ROWS + "f" + value;
    if (value === 0 && 1 / value < 0) return ROWS + "f-0";
    if (original instanceof U8 || original instanceof AB) return hex(original instanceof AB ? new U8(original) : original);
    if (typeof value === "function" || typeof value === "symbol") throw new Inner(value);
    checkInner(original);
    return typeof value === "string" && value[0] === ROWS ? ROWS + "s" + value : value;
  };

  // ── columns in ─────────────────────────────────────────────────────────────────────────────────────────────
  const READERS = { int: integer, decimal, json: nested };
  function column(kind, shape, n, data, parts) {
    // no destructuring of arrays here: it would use an iterator that the script can replace
    const mode = shape[0], at = shape[1], nulls = shape[2];
    let values;
    if (mode === "none") {
      values = bare([]);
      for (let i = 0; i < n; i++) values[i] = null;
      return values;
    }
    if (mode === "number") values = new F64(data, at, n);
    else if (mode === "bool") {
      const bits = new U8(data, at, n);
      values = bare([]);
      for (let i = 0; i < n; i++) values[i] = bits[i] === 1;
    } else values = mode === "json" ? parse(parts[at]) : split(parts[at], ROWS);
    const read = mode === "text" || mode === "json" ? READERS[kind] : undefined;
    if (nulls < 0 && read === undefined) return values;
    const nullFlags = nulls < 0 ? undefined : new U8(data, nulls, n);
    const found = bare([]);
    for (let i = 0; i < n; i++)
      found[i] = nullFlags !== undefined && nullFlags[i] === 1 ? null : read === undefined ? values[i] : read(values[i]);
    return found;
  }

  // A nested value that JSON would write as {} or null although it is not empty.
  class Inner { constructor(value) { this.value = value; } }
  const checkInner = (value) => {
    if (typeof value !== "object" || value === null || isArray(value) || getPrototypeOf(value) === Plain) return;
    if (value instanceof D ? !isFinite(millis(value)) : isKeeper(value)) throw new Inner(value);
  };
  const isKeeper = (value) => {
    if (value instanceof N || value instanceof S || value instanceof Flag || typeof value.toJSON === "function") return false;
    return keeper(value) !== undefined;
  };
  const readable = function (key, value) {
    checkInner(this[key]);
    return typeof value === "bigint" ? S(value) : value;
  };
  const loose = (key, value) => (typeof value === "bigint" ? S(value) : value);

  // ── values out: conversions off the fast path ────────────────────────────────────────────────────────────
  const shown = (value) => {
    try {
      if (typeof value === "string") return value;
      if (typeof value === "object" && value !== null && !isDecimal(value)) return S(stringify(value, loose));
      return typeof value === "function" ? "a function" : S(value);
    } catch { return "a value that cannot be shown"; }
  };
  class InvalidValue { constructor(column, value) { this.column = column; this.value = value; } }
  const rejectValue = (name, value) => { throw new InvalidValue(name, value); };
  // objects such as `new Number(3)` count as numbers
  const plain = (value) =>
    typeof value === "object" && !isDecimal(value) && (value instanceof N || value instanceof S || value instanceof Flag)
      ? value.valueOf() : value;
  const numeric = (value, name, given) => {
    if (isDecimal(value)) return digitsOf(value);
    if (typeof value === "number") return isFinite(value) ? S(value) : rejectValue(name, given);
    if (typeof value === "bigint") return S(value);
    if (typeof value === "boolean") return value ? "1" : "0";
    if (value instanceof D) return isFinite(millis(value)) ? S(millis(value)) : rejectValue(name, given);
    if (typeof value === "string" && test(NUMBER, trim(value))) return trim(value);
    return rejectValue(name, given);
  };
  function hex(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; i++) text += padded(inBase(bytes[i], 16), 2, "0");
    return text;
  }
  // an object as JSON
  function written(value, replacer, name) {
    let text;
    try { text = stringify(value, replacer); }
    catch (error) { throw error instanceof Inner ? new InvalidValue(name, error.value) : error; }
    return text === undefined ? rejectValue(name, value) : text;
  }
  const COERCE = {
    int(value, name, given) {
      const text = numeric(value, name, given);
      const whole = test(INTEGER, text) ? (text[0] === "+" ? cut(text, 1) : text)
        : isDecimal(value) || (typeof value === "string" && !test(EXPONENT, text)) ? split(text, ".")[0] || "0"
        : isFinite(N(text)) ? truncate(N(text)) : rejectValue(name, given);
      // no column can hold that many digits
      return typeof whole === "string" && whole.length > MOST_DIGITS ? rejectValue(name, given) : S(B(whole));
    },
    float(value, name, given) {
      if (typeof value === "number") return value;
      if (typeof value === "string" && (value === "NaN" || value === "Infinity" || value === "-Infinity")) return N(value);
      const number = N(numeric(value, name, given));
      return isFinite(number) ? number : rejectValue(name, given);
    },
    bool(value, name, given) {
      if (value === true || value === 1 || value === 1n) return 1;
      if (value === false || value === 0 || value === 0n) return 0;
      const word = typeof value === "string" ? lower(trim(value)) : "";
      if (word === "true" || word === "1") return 1;
      if (word === "false" || word === "0") return 0;
      return rejectValue(name, given);
    },
    string(value, name) {
      if (typeof value !== "object") return S(value);
      if (isDecimal(value)) return digitsOf(value);
      return value instanceof D ? isoDate(value) : written(value, readable, name);
    },
    decimal: numeric,
    // a number is milliseconds since 1970, as in Date
    time(value, name, given) {
      if (typeof value === "string") return value;
      if (value instanceof D) return isFinite(millis(value)) ? isoDate(value) : rejectValue(name, given);
      return "@" + numeric(value, name, given);
    },
    binary(value, name, given) {
      if (typeof value === "string") {
        const digits = value[0] === "0" && (value[1] === "x" || value[1] === "X") ? cut(value, 2) : value;
        return test(HEX, digits) ? digits : rejectValue(name, given);
      }
      const bytes = value instanceof AB ? new U8(value) : value;
      if (!isArray(bytes) && !(bytes instanceof U8)) return rejectValue(name, given);
      for (let i = 0; i < bytes.length; i++)
        if (!isInteger(bytes[i]) || bytes[i] < 0 || bytes[i] > 255) return rejectValue(name, given);
      return hex(bytes);
    },
    json: (value, name) => written(value, replaced, name),
    null: (value, name, given) => rejectValue(name, given),
  };
  const coerced = (kind, value, name) => {
    if (typeof value === "function" || typeof value === "symbol") return rejectValue(name, value);
    return COERCE[kind](plain(value), name, value);
  };

  // an error of the driver: its stack does not matter
  class DriverError extends Error { get name() { return "DriverError"; } }
  const driverError = (message) => new DriverError(message);

  // ── rows ───────────────────────────────────────────────────────────────────────────────────────────────────
  // objects whose content is not in their properties
  const KEEPERS = [[P, "a promise"], [Map, "a Map"], [Set, "a Set"], [WeakMap, "a WeakMap"], [WeakSet, "a WeakSet"],
    [WeakRef, "a WeakRef"], [AB, "an ArrayBuffer"], [DataView, "a DataView"], [getPrototypeOf(U8), "a typed array"],
    [D, "a Date"], [RegExp, "a RegExp"], [Error, "an Error"], [N, "a number"], [S, "a string"], [Flag, "a boolean"],
    [B, "a bigint"], [Symbol, "a symbol"]];
  const generators = [getPrototypeOf(getPrototypeOf((function* () {})())), getPrototypeOf(getPrototypeOf((async function* () {})()))];
  const { iterator, asyncIterator } = Symbol;
  // the kind of an object that cannot be a row; undefined for all others
  function keeper(value) {
    for (let i = 0; i < KEEPERS.length; i++) if (value instanceof KEEPERS[i][0]) return KEEPERS[i][1];
    for (let at = getPrototypeOf(value); at !== null; at = getPrototypeOf(at))
      if (getPrototypeOf(at) === generators[0] || getPrototypeOf(at) === generators[1]) return "a generator";
    if (typeof value[iterator] === "function" || typeof value[asyncIterator] === "function") return "an iterable object";
    return typeof value.then === "function" ? "a promise" : undefined;
  }
  const isRow = (value) => isDecimal(value) || keeper(value) === undefined;
  // the row's own value of a property that every object has
  const own = (value, name) => {
    for (let at = value; at !== null && at !== Plain; at = getPrototypeOf(at)) if (hasOwn(at, name)) return value[name];
  };
  // properties that rows and values would inherit
  const checkPrototypes = (names) => {
    for (let i = 0; i < names.length; i++) if (hasOwn(Plain, names[i])) rejectProperty("Object", names[i]);
    if ("toJSON" in Plain) rejectProperty("Object", "toJSON");
    if ("toJSON" in Elements) rejectProperty("Array", "toJSON");
  };
  const Elements = Array.prototype;
  const rejectProperty = (kind, name) => {
    throw driverError("it adds a property " + name + " to " + kind + ".prototype, which would change other rows");
  };

  // ── failures ───────────────────────────────────────────────────────────────────────────────────────────────
  const kindOf = (value) => {
    if (typeof value !== "object") return value === undefined ? "undefined" : "a " + typeof value;
    if (value === null) return "null";
    return isArray(value) ? "an array" : keeper(value) || "an object";
  };
  function failure(error, row) {
    let column = "", name = "", message = "", stack = "", kind = "";
    try {
      if (error instanceof InvalidValue) {
        column = error.column; kind = kindOf(error.value); message = cut(shown(error.value), 0, 200);
      } else if (typeof error === "object" && error !== null && typeof error.message === "string") {
        name = S(error.name); message = error.message; stack = S(error.stack);
      } else message = shown(error);
    } catch { message = "a value that cannot be shown"; }
    return [new AB(0), wellFormed("!" + texts([S(row), kind, column, name, message, stack]))];
  }

  // ── selecting the function ─────────────────────────────────────────────────────────────────────────────────
  function rowFunction(source, value, named) {
    let names = "", only, count = 0, preferred, last = -1;
    for (let n = 0; n < named.length; n++) {
      const name = named[n][0], found = named[n][1];
      if (typeof found !== "function") continue;
      only = found; count++; names += (names === "" ? "" : ", ") + name;
      const at = name === "process" || name === "invoke" ? position(source, sourceOf(found)) : -1;
      if (at > last) { last = at; preferred = found; }
    }
    if (preferred !== undefined) return preferred;
    if (typeof value === "function") return value;
    if (count === 1) return only;
    throw driverError(names === ""
      ? "it defines no function; write function process(input) { … }"
      : "it defines several functions (" + names + "); call the one that takes a row 'process'");
  }

  return { ROWS, PARTS, N, AB, F64, U8, U32, Plain, isArray, isSafeInteger, getPrototypeOf, parse, split, join, fill, bare,
           texts, wellFormed, column, coerced, driverError, failure, kindOf, isRow, own, checkPrototypes, rowFunction, reseed,
           recordUnknown, unknown: () => { const found = texts(unknown); unknown = bare([]); return found; },
           dropped: () => { const count = dropped; dropped = 0; return count; },
           lines: () => { const text = texts(lines); lines = bare([]); return text; } };
})
