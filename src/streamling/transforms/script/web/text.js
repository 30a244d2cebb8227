// TextEncoder and TextDecoder (encoding.spec.whatwg.org), for UTF-8 and UTF-16.
(() => {
  "use strict";
  const LABELS = {
    "utf-8": "utf-8", "utf8": "utf-8", "unicode-1-1-utf-8": "utf-8", "unicode11utf8": "utf-8", "unicode20utf8": "utf-8",
    "x-unicode20utf8": "utf-8", "utf-16": "utf-16le", "utf-16le": "utf-16le", "ucs-2": "utf-16le", "unicode": "utf-16le",
    "iso-10646-ucs-2": "utf-16le", "csunicode": "utf-16le", "unicodefeff": "utf-16le", "utf-16be": "utf-16be",
    "unicodefffe": "utf-16be",
  };

  // Calls put(byte) for each byte of a code point.
  function encodePoint(point, put) {
    if (point < 0x80) put(point);
    else if (point < 0x800) { put(0xc0 | (point >> 6)); put(0x80 | (point & 63)); }
    else if (point < 0x10000) { put(0xe0 | (point >> 12)); put(0x80 | ((point >> 6) & 63)); put(0x80 | (point & 63)); }
    else {
      put(0xf0 | (point >> 18)); put(0x80 | ((point >> 12) & 63)); put(0x80 | ((point >> 6) & 63)); put(0x80 | (point & 63));
    }
  }
  const sizeOf = (point) => (point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4);

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(input = "") {
      const text = String(input).toWellFormed();
      const bytes = new Uint8Array(text.length * 3);
      let at = 0;
      const put = (byte) => { bytes[at++] = byte; };
      for (const char of text) encodePoint(char.codePointAt(0), put);
      return bytes.slice(0, at);
    }
    encodeInto(source, destination) {
      if (!(destination instanceof Uint8Array)) throw new TypeError("the destination is not a Uint8Array");
      let read = 0, written = 0;
      const put = (byte) => { destination[written++] = byte; };
      for (const char of String(source).toWellFormed()) {
        const point = char.codePointAt(0);
        if (written + sizeOf(point) > destination.length) break;
        encodePoint(point, put);
        read += char.length;
      }
      return { read, written };
    }
    get [Symbol.toStringTag]() { return "TextEncoder"; }
  }

  function bytesOf(input) {
    if (input === undefined) return new Uint8Array(0);
    if (input instanceof ArrayBuffer) return new Uint8Array(input);
    if (ArrayBuffer.isView(input)) return new Uint8Array(input.buffer, input.byteOffset, input.byteLength);
    throw new TypeError("TextDecoder takes an ArrayBuffer or a view of one");
  }

  class TextDecoder {
    #encoding; #fatal; #ignoreBOM; #left = []; #started = false;
    constructor(label = "utf-8", options = {}) {
      const name = LABELS[String(label).trim().toLowerCase()];
      if (name === undefined) throw new RangeError(`the encoding '${label}' is not supported: use utf-8 or utf-16le`);
      this.#encoding = name;
      this.#fatal = Boolean(options?.fatal);
      this.#ignoreBOM = Boolean(options?.ignoreBOM);
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    get [Symbol.toStringTag]() { return "TextDecoder"; }

    decode(input, options = {}) {
      const stream = Boolean(options?.stream), fresh = bytesOf(input);
      let bytes = fresh;
      if (this.#left.length) {
        bytes = new Uint8Array(this.#left.length + fresh.length);
        bytes.set(this.#left);
        bytes.set(fresh, this.#left.length);
        this.#left = [];
      }
      const read = this.#encoding === "utf-8" ? decodeUtf8 : decodeUtf16;
      let text;
      try { text = read(bytes, this.#fatal, stream, (rest) => { this.#left = rest; }, this.#encoding === "utf-16be"); }
      catch (error) { this.#started = false; this.#left = []; throw error; }
      if (text !== "" && !this.#started) {
        this.#started = true;
        if (!this.#ignoreBOM && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
      }
      if (!stream) this.#started = false;
      return text;
    }
  }

  const broken = (name) => new TypeError(`the bytes are not valid ${name}`);

  class Text {
    units = []; text = "";
    put(point) {
      if (point > 0xffff) { this.units.push(0xd800 + ((point - 0x10000) >> 10), 0xdc00 + ((point - 0x10000) & 0x3ff)); }
      else this.units.push(point);
      if (this.units.length > 4096) this.flush();
    }
    flush() { this.text += String.fromCharCode.apply(null, this.units); this.units.length = 0; }
    done() { this.flush(); return this.text; }
  }

  function decodeUtf8(bytes, fatal, stream, keep) {
    const out = new Text();
    let needed = 0, seen = 0, point = 0, lower = 0x80, upper = 0xbf, start = 0;
    const bad = () => { if (fatal) throw broken("UTF-8"); out.put(0xfffd); };
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i];
      if (needed === 0) {
        start = i;
        if (byte < 0x80) out.put(byte);
        else if (byte >= 0xc2 && byte <= 0xdf) { needed = 1; point = byte & 0x1f; }
        else if (byte >= 0xe0 && byte <= 0xef) {
          if (byte === 0xe0) lower = 0xa0;
          if (byte === 0xed) upper = 0x9f;
          needed = 2; point = byte & 0xf;
        } else if (byte >= 0xf0 && byte <= 0xf4) {
          if (byte === 0xf0) lower = 0x90;
          if (byte === 0xf4) upper = 0x8f;
          needed = 3; point = byte & 7;
        } else bad();
        continue;
      }
      if (byte < lower || byte > upper) {
        needed = seen = point = 0; lower = 0x80; upper = 0xbf;
        bad();
        i--;
        continue;
      }
      lower = 0x80; upper = 0xbf;
      point = (point << 6) | (byte & 63);
      if (++seen === needed) { out.put(point); needed = seen = point = 0; }
    }
    if (needed) {
      if (stream) keep(Array.from(bytes.subarray(start)));
      else bad();
    }
    return out.done();
  }

  function decodeUtf16(bytes, fatal, stream, keep, big) {
    const out = new Text();
    const unit = (i) => (big ? (bytes[i] << 8) | bytes[i + 1] : bytes[i] | (bytes[i + 1] << 8));
    const bad = () => { if (fatal) throw broken("UTF-16"); out.put(0xfffd); };
    let i = 0;
    for (; i + 1 < bytes.length; i += 2) {
      const first = unit(i);
      if (first < 0xd800 || first > 0xdfff) { out.put(first); continue; }
      if (first > 0xdbff) { bad(); continue; }
      if (i + 3 >= bytes.length) break;
      const second = unit(i + 2);
      if (second < 0xdc00 || second > 0xdfff) { bad(); continue; }
      out.units.push(first, second);
      i += 2;
    }
    if (i < bytes.length) {
      if (stream) keep(Array.from(bytes.subarray(i)));
      else bad();
    }
    return out.done();
  }

  for (const [name, value] of Object.entries({ TextEncoder, TextDecoder }))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
})();
