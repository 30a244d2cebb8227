// structuredClone (html.spec.whatwg.org/multipage/structured-data.html): a deep copy that keeps cycles and shared parts.
(() => {
  "use strict";
  const ERRORS = new Set(["Error", "EvalError", "RangeError", "ReferenceError", "SyntaxError", "TypeError", "URIError"]);
  const tagOf = (value) => Object.prototype.toString.call(value).slice(8, -1);
  const refuse = (what) => { throw new DOMException(`${what} could not be cloned`, "DataCloneError"); };
  const TypedArray = Object.getPrototypeOf(Uint8Array);
  const NEVER = new Set(["Promise", "WeakMap", "WeakSet", "WeakRef", "Generator", "AsyncGenerator"]);

  function clone(value, seen) {
    if (typeof value === "symbol") refuse(String(value));
    if (typeof value === "function") refuse(value.name ? `the function ${value.name}` : "a function");
    if (typeof value !== "object" || value === null) return value;
    const known = seen.get(value);
    if (known !== undefined) return known;
    const remember = (copy) => { seen.set(value, copy); return copy; };
    // the numbers with more than 15 digits that a row may hold: they never change
    if (value instanceof Number && Object.getPrototypeOf(value) !== Number.prototype) return remember(value);
    if (value instanceof Number) return remember(new Number(Number(value)));
    if (value instanceof String) return remember(new String(String(value)));
    if (value instanceof Boolean) return remember(new Boolean(value.valueOf()));
    if (value instanceof BigInt) return remember(Object(value.valueOf()));
    if (value instanceof Date) return remember(new Date(value.getTime()));
    if (value instanceof RegExp) return remember(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return remember(value.slice(0));
    if (value instanceof DataView) {
      return remember(new DataView(clone(value.buffer, seen), value.byteOffset, value.byteLength));
    }
    if (value instanceof TypedArray) {
      const kind = globalThis[value[Symbol.toStringTag]];
      return remember(new kind(clone(value.buffer, seen), value.byteOffset, value.length));
    }
    if (value instanceof Map) {
      const copy = remember(new Map());
      for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
      return copy;
    }
    if (value instanceof Set) {
      const copy = remember(new Set());
      for (const item of [...value]) copy.add(clone(item, seen));
      return copy;
    }
    if (value instanceof Error) {
      const name = ERRORS.has(value.name) ? value.name : "Error";
      const copy = remember(Object.create(globalThis[name].prototype));
      const put = (key, item) => Object.defineProperty(copy, key, { value: item, writable: true, configurable: true });
      if (Object.hasOwn(value, "message")) put("message", String(value.message));
      if (typeof value.stack === "string") put("stack", value.stack);
      if (Object.hasOwn(value, "cause")) put("cause", clone(value.cause, seen));
      return copy;
    }
    if (NEVER.has(tagOf(value)) || value instanceof WeakMap || value instanceof WeakSet || value instanceof Promise)
      refuse(`a ${tagOf(value)}`);
    const copy = remember(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value))
      Object.defineProperty(copy, key, { value: clone(value[key], seen), writable: true, enumerable: true, configurable: true });
    return copy;
  }

  function structuredClone(value, options) {
    if (!arguments.length) throw new TypeError("structuredClone needs an argument");
    const seen = new Map(), moved = options?.transfer ?? [];
    for (const item of moved)
      if (!(item instanceof ArrayBuffer)) refuse("what is to be transferred is not an ArrayBuffer and");
    const copy = clone(value, seen);
    for (const item of moved) item.transfer?.();
    return copy;
  }
  Object.defineProperty(globalThis, "structuredClone", { value: structuredClone, writable: true, configurable: true });
})();
