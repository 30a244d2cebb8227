// Runs around the user's function: columns in, rows through the function, columns out.
// Evaluated before the user's text, so that nothing that text replaces (JSON, Array.prototype, …) is used here.
(function (settings) {
  "use strict";
  const ROWS = "\u0001", PARTS = "\u0002", MOST_LINES = 20, LONGEST_LINE = 1000;
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { isSafeInteger, isFinite, isInteger } = Number;
  const N = Number, S = String, B = BigInt, P = Promise, F64 = Float64Array, U8 = Uint8Array, U32 = Uint32Array, D = Date;
  const AB = ArrayBuffer, Flag = Boolean;
  const truncate = Math.trunc;
  const uncurried = Function.prototype.bind.bind(Function.prototype.call);
  const split = uncurried(S.prototype.split), join = uncurried(Array.prototype.join), test = uncurried(RegExp.prototype.test);
  const includes = uncurried(S.prototype.includes), trim = uncurried(S.prototype.trim), cut = uncurried(S.prototype.slice);
  const lower = uncurried(S.prototype.toLowerCase), wellFormed = uncurried(S.prototype.toWellFormed);
  const position = uncurried(S.prototype.lastIndexOf), sourceOf = uncurried(Function.prototype.toString);
  const isoDate = uncurried(D.prototype.toISOString), millis = uncurried(D.prototype.getTime);
  const padded = uncurried(S.prototype.padStart), inBase = uncurried(N.prototype.toString);
  const INTEGER = /^[+-]?[0-9]+$/, NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?$/i, HEX = /^([0-9a-f]{2})*$/i;

  for (const name of settings.removed) {
    if (!Reflect.deleteProperty(globalThis, name)) try { globalThis[name] = undefined; } catch {}
  }

  // ── console: a few lines per call go to the log ────────────────────────────────────────────────────────────
  let lines = [];
  const say = (...values) => {
    if (lines.length < MOST_LINES) lines[lines.length] = cut(join(values.map(shown), " "), 0, LONGEST_LINE);
  };
  globalThis.console = { log: say, info: say, debug: say, warn: say, error: say, trace: say };

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
      const code = text.charCodeAt(i);
      if (code < 48 || code > 57) continue;
      if (code === 48) { if (seen) zeros++; } else { count += zeros + 1; zeros = 0; seen = true; }
    }
    return count;
  };
  // 15 digits always survive the way through a double and back
  const decimal = (text) => (significant(text) <= 15 ? N(text) : new Decimal(text));
  // inside nested values a text that begins with ROWS says what it stands for
  const revive = (key, value) => {
    if (typeof value !== "string" || value[0] !== ROWS) return value;
    const rest = cut(value, 2);
    return value[1] === "i" ? integer(rest) : value[1] === "d" ? decimal(rest) : value[1] === "f" ? N(rest) : rest;
  };
  const nested = (text) => (includes(text, "\\u0001") ? parse(text, revive) : parse(text));
  const replaced = function (key, value) {
    if (typeof value === "bigint") return ROWS + "i" + value;
    const original = this[key];
    if (isDecimal(original)) return ROWS + "d" + digitsOf(original);
    if (typeof value === "number" && !isFinite(value)) return ROWS + "f" + value;
    return typeof value === "string" && value[0] === ROWS ? ROWS + "s" + value : value;
  };

  // ── columns in ─────────────────────────────────────────────────────────────────────────────────────────────
  const READERS = { int: integer, decimal, json: nested };
  function column(kind, shape, n, data, parts) {
    // no destructuring of arrays here: it would use an iterator that the script can replace
    const mode = shape[0], at = shape[1], nulls = shape[2];
    let values;
    if (mode === "none") return new Array(n).fill(null);
    if (mode === "number") values = new F64(data, at, n);
    else if (mode === "bool") {
      const bits = new U8(data, at, n);
      values = new Array(n);
      for (let i = 0; i < n; i++) values[i] = bits[i] === 1;
    } else values = mode === "json" ? parse(parts[at]) : split(parts[at], ROWS);
    const read = mode === "text" || mode === "json" ? READERS[kind] : undefined;
    if (nulls < 0 && read === undefined) return values;
    const gone = nulls < 0 ? undefined : new U8(data, nulls, n);
    const found = new Array(n);
    for (let i = 0; i < n; i++)
      found[i] = gone !== undefined && gone[i] === 1 ? null : read === undefined ? values[i] : read(values[i]);
    return found;
  }

  const readable = (key, value) => (typeof value === "bigint" ? S(value) : value);

  // ── values out: what the fast path did not take ────────────────────────────────────────────────────────────
  const shown = (value) => {
    try {
      if (typeof value === "string") return value;
      if (typeof value === "object" && value !== null && !isDecimal(value)) return S(stringify(value, readable));
      return typeof value === "function" ? "a function" : S(value);
    } catch { return "a value that cannot be shown"; }
  };
  class Unfit { constructor(column, value) { this.column = column; this.value = value; } }
  const unfit = (name, value) => { throw new Unfit(name, value); };
  // numbers inside objects such as `new Number(3)` count as numbers
  const plain = (value) =>
    typeof value === "object" && !isDecimal(value) && (value instanceof N || value instanceof S || value instanceof Flag)
      ? value.valueOf() : value;
  const numeric = (value, name, given) => {
    if (isDecimal(value)) return digitsOf(value);
    if (typeof value === "number") return isFinite(value) ? S(value) : unfit(name, given);
    if (typeof value === "bigint") return S(value);
    if (typeof value === "boolean") return value ? "1" : "0";
    if (value instanceof D) return S(millis(value));
    if (typeof value === "string" && test(NUMBER, trim(value))) return trim(value);
    return unfit(name, given);
  };
  const COERCE = {
    int(value, name, given) {
      const text = numeric(value, name, given);
      if (test(INTEGER, text)) return S(B(text[0] === "+" ? cut(text, 1) : text));
      if (isDecimal(value) || (typeof value === "string" && !test(/e/i, text))) return S(B(split(text, ".")[0] || "0"));
      return S(B(truncate(N(text))));
    },
    float(value, name, given) {
      if (typeof value === "number") return value;
      if (typeof value === "string" && (value === "NaN" || value === "Infinity" || value === "-Infinity")) return N(value);
      return N(numeric(value, name, given));
    },
    bool(value, name, given) {
      if (value === true || value === 1 || value === 1n) return 1;
      if (value === false || value === 0 || value === 0n) return 0;
      const word = typeof value === "string" ? lower(trim(value)) : "";
      if (word === "true" || word === "1") return 1;
      if (word === "false" || word === "0") return 0;
      return unfit(name, given);
    },
    string(value) {
      if (typeof value !== "object") return S(value);
      if (isDecimal(value)) return digitsOf(value);
      return value instanceof D ? isoDate(value) : stringify(value, readable);
    },
    decimal: numeric,
    // a number is milliseconds since 1970, as in Date
    time(value, name, given) {
      if (typeof value === "string") return value;
      if (value instanceof D) return isFinite(millis(value)) ? isoDate(value) : unfit(name, given);
      return "@" + numeric(value, name, given);
    },
    binary(value, name, given) {
      if (typeof value === "string") {
        const digits = value[0] === "0" && (value[1] === "x" || value[1] === "X") ? cut(value, 2) : value;
        return test(HEX, digits) ? digits : unfit(name, given);
      }
      const bytes = value instanceof AB ? new U8(value) : value;
      if (!isArray(bytes) && !(bytes instanceof U8)) return unfit(name, given);
      let text = "";
      for (let i = 0; i < bytes.length; i++) {
        if (!isInteger(bytes[i]) || bytes[i] < 0 || bytes[i] > 255) return unfit(name, given);
        text += padded(inBase(bytes[i], 16), 2, "0");
      }
      return text;
    },
    json: (value) => stringify(value, replaced),
    null: (value, name, given) => unfit(name, given),
  };
  const coerced = (kind, value, name) => {
    if (typeof value === "function" || typeof value === "symbol") return unfit(name, value);
    return COERCE[kind](plain(value), name, value);
  };

  // an error of ours: where it was thrown does not matter
  class Complaint extends Error { get name() { return "Complaint"; } }
  const complaint = (message) => new Complaint(message);

  // ── failures ───────────────────────────────────────────────────────────────────────────────────────────────
  const kindOf = (value) =>
    value === null ? "null" : isArray(value) ? "an array" : typeof value === "undefined" ? "undefined" :
    value instanceof P ? "a promise" : "a " + typeof value;
  function failure(error, row) {
    let told = { row, name: "", message: "", stack: "" };
    try {
      if (error instanceof Unfit) {
        told = { ...told, column: error.column, message: cut(shown(error.value), 0, 200), kind: kindOf(error.value) };
      } else if (typeof error === "object" && error !== null && typeof error.message === "string") {
        told = { ...told, name: S(error.name), message: error.message, stack: S(error.stack) };
      } else told = { ...told, message: shown(error) };
    } catch { told.message = "a value that cannot be shown"; }
    return [new AB(0), wellFormed("!" + stringify(told))];
  }

  // ── which function is meant ────────────────────────────────────────────────────────────────────────────────
  function chosen(source, value, named) {
    let names = "", only, count = 0, meant, last = -1;
    for (let n = 0; n < named.length; n++) {
      const name = named[n][0], found = named[n][1];
      if (typeof found !== "function") continue;
      only = found; count++; names += (names === "" ? "" : ", ") + name;
      const at = name === "process" || name === "invoke" ? position(source, sourceOf(found)) : -1;
      if (at > last) { last = at; meant = found; }
    }
    if (meant !== undefined) return meant;
    if (typeof value === "function") return value;
    if (count === 1) return only;
    throw complaint(names === ""
      ? "it has no function; write function process(input) { … }"
      : "it has several functions (" + names + "); name the one that takes a row process");
  }

  return { ROWS, PARTS, N, AB, F64, U8, U32, P, isArray, isSafeInteger, parse, stringify, split, join, wellFormed,
           column, coerced, complaint, failure, kindOf, chosen, lines: () => { const said = lines; lines = []; return said; } };
})
