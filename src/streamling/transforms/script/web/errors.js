// DOMException, as far as the functions beside it throw it.
(() => {
  "use strict";
  const CODES = { InvalidCharacterError: 5, DataCloneError: 25 };
  class DOMException extends Error {
    #name;
    constructor(message = "", name = "Error") { super(message); this.#name = String(name); }
    get name() { return this.#name; }
    get code() { return CODES[this.#name] ?? 0; }
    get [Symbol.toStringTag]() { return "DOMException"; }
  }
  Object.defineProperty(globalThis, "DOMException", { value: DOMException, writable: true, configurable: true });
})();
