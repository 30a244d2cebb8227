// URL and URLSearchParams (url.spec.whatwg.org). Names outside ASCII are lower-cased, normalized (NFKC) and written in
// Punycode; the mapping tables of UTS #46 are not here.
(() => {
  "use strict";
  const PORTS = Object.assign(Object.create(null), { ftp: 21, file: null, http: 80, https: 443, ws: 80, wss: 443 });
  const isSpecialScheme = (scheme) => scheme in PORTS;

  // ── percent-encoding ───────────────────────────────────────────────────────────────────────────────────────
  const set = (chars, base) => new Set([...(base ?? []), ...chars]);
  const FRAGMENT = set(' "<>`'), QUERY = set(' "#<>'), SPECIAL_QUERY = set("'", QUERY);
  const PATH = set("?^`{}", QUERY), USERINFO = set("/:;=@[\\]|", PATH), COMPONENT = set("$%&+,", USERINFO);
  const FORM = set("!'()~", COMPONENT), CONTROLS = set("");
  const isControl = (char) => char < " " || char > "~";
  function encodeChar(char, chosen) {
    if (!isControl(char) && !chosen.has(char)) return char;
    const code = char.codePointAt(0);
    if (code < 0x80) return "%" + code.toString(16).toUpperCase().padStart(2, "0");
    return encodeURIComponent(char);
  }
  function encode(text, chosen) {
    let made = "";
    for (const char of text) made += encodeChar(char, chosen);
    return made;
  }
  const HEX = /^[0-9a-f]{2}$/i;
  // the bytes that a text stands for, with %XX read
  function percentDecoded(text) {
    const bytes = [];
    for (const char of text.toWellFormed()) {
      const code = char.codePointAt(0);
      if (code < 0x80) bytes.push(code);
      else for (const [, byte] of encodeURIComponent(char).matchAll(/%(..)/g)) bytes.push(parseInt(byte, 16));
    }
    const read = [];
    for (let i = 0; i < bytes.length; i++) {
      const digits = bytes[i] === 0x25 && i + 2 < bytes.length ? String.fromCharCode(bytes[i + 1], bytes[i + 2]) : "";
      if (HEX.test(digits)) { read.push(parseInt(digits, 16)); i += 2; } else read.push(bytes[i]);
    }
    return read;
  }
  // UTF-8 without a failure: invalid bytes become U+FFFD
  function utf8(bytes) {
    let text = "";
    for (let i = 0; i < bytes.length; ) {
      const first = bytes[i];
      let size = first < 0x80 ? 1 : first >= 0xc2 && first <= 0xdf ? 2 : first >= 0xe0 && first <= 0xef ? 3
        : first >= 0xf0 && first <= 0xf4 ? 4 : 0;
      if (size === 0) { text += "\ufffd"; i++; continue; }
      let point = size === 1 ? first : first & (0xff >> (size + 1)), used = 1;
      for (; used < size; used++) {
        const low = used === 1 ? (first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80) : 0x80;
        const high = used === 1 ? (first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf) : 0xbf;
        if (!(bytes[i + used] >= low && bytes[i + used] <= high)) break;
        point = (point << 6) | (bytes[i + used] & 63);
      }
      text += used < size ? "\ufffd" : String.fromCodePoint(point);
      i += used;
    }
    return text;
  }

  // ── hosts ──────────────────────────────────────────────────────────────────────────────────────────────────
  const FORBIDDEN = /[\0\t\n\r #/:<>?@[\\\]^|]/, FORBIDDEN_DOMAIN = /[\0-\x20"#%/:<>?@[\\\]^`{|}\x7f]/;
  const DIGITS = "abcdefghijklmnopqrstuvwxyz0123456789";
  function punycode(label) {
    const points = Array.from(label, (char) => char.codePointAt(0)), basic = points.filter((point) => point < 0x80);
    let made = String.fromCharCode(...basic), n = 128, delta = 0, bias = 72, done = basic.length;
    if (done) made += "-";
    for (const count = basic.length; done < points.length; ) {
      const next = Math.min(...points.filter((point) => point >= n));
      delta += (next - n) * (done + 1);
      n = next;
      for (const point of points) {
        if (point < n) delta++;
        if (point !== n) continue;
        let q = delta;
        for (let k = 36; ; k += 36) {
          const t = k <= bias ? 1 : k >= bias + 26 ? 26 : k - bias;
          if (q < t) break;
          made += DIGITS[t + ((q - t) % (36 - t))];
          q = Math.floor((q - t) / (36 - t));
        }
        made += DIGITS[q];
        delta = done === count ? Math.floor(delta / 700) : delta >> 1;
        delta += Math.floor(delta / (done + 1));
        let k = 0;
        for (; delta > 455; k += 36) delta = Math.floor(delta / 35);
        bias = k + Math.floor((36 * delta) / (delta + 38));
        delta = 0;
        done++;
      }
      delta++;
      n++;
    }
    return made;
  }
  function domainToAscii(domain) {
    if (/^[\0-\x7f]*$/.test(domain)) return domain.toLowerCase();
    const mapped = domain.replace(/[\xad\u200b\u2060\ufeff]/g, "").toLowerCase().normalize("NFKC").toLowerCase();
    const labels = mapped.replace(/[\u3002\uff0e\uff61]/g, ".").split(".");
    return labels.map((label) => (/^[\0-\x7f]*$/.test(label) ? label : "xn--" + punycode(label))).join(".");
  }
  function ipv4Number(part) {
    if (part === "") return undefined;
    const [digits, base, valid] = /^0x/i.test(part) ? [part.slice(2), 16, /^[0-9a-f]*$/i]
      : part.length > 1 && part[0] === "0" ? [part.slice(1), 8, /^[0-7]*$/] : [part, 10, /^[0-9]+$/];
    if (!valid.test(digits)) return undefined;
    return digits === "" ? 0 : parseInt(digits, base);
  }
  function endsInNumber(domain) {
    const parts = domain.split(".");
    if (parts.at(-1) === "" && parts.length > 1) parts.pop();
    const last = parts.at(-1);
    return /^[0-9]+$/.test(last) || (/^0x[0-9a-f]*$/i.test(last) && ipv4Number(last) !== undefined);
  }
  function ipv4(domain) {
    const parts = domain.split(".");
    if (parts.at(-1) === "" && parts.length > 1) parts.pop();
    if (parts.length > 4) return undefined;
    const numbers = parts.map(ipv4Number);
    if (numbers.includes(undefined) || numbers.slice(0, -1).some((number) => number > 255)) return undefined;
    const last = numbers.pop();
    if (last >= 256 ** (4 - numbers.length)) return undefined;
    const value = numbers.reduce((sum, number, place) => sum + number * 256 ** (3 - place), last);
    return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
  }
  function ipv6(text) {
    const halves = text.split("::");
    if (halves.length > 2) return undefined;
    const read = (half) => {
      if (half === "") return [];
      const pieces = [], parts = half.split(":");
      for (const [place, part] of parts.entries()) {
        if (part.includes(".")) {
          if (place !== parts.length - 1 || !/^(0|[1-9]\d{0,2})(\.(0|[1-9]\d{0,2})){3}$/.test(part)) return undefined;
          const bytes = part.split(".").map(Number);
          if (bytes.some((byte) => byte > 255)) return undefined;
          pieces.push(bytes[0] * 256 + bytes[1], bytes[2] * 256 + bytes[3]);
        } else if (/^[0-9a-f]{1,4}$/i.test(part)) pieces.push(parseInt(part, 16));
        else return undefined;
      }
      return pieces;
    };
    const first = read(halves[0]), second = halves.length === 2 ? read(halves[1]) : [];
    if (first === undefined || second === undefined || (halves.length === 2 && halves[0].includes("."))) return undefined;
    const missing = 8 - first.length - second.length;
    if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
    const pieces = [...first, ...Array(halves.length === 2 ? missing : 0).fill(0), ...second];
    let start = -1, length = 1;
    for (let i = 0; i < 8; i++) {
      let j = i;
      while (j < 8 && pieces[j] === 0) j++;
      if (j - i > length) { start = i; length = j - i; }
      if (j > i) i = j;
    }
    const hex = (part) => part.map((piece) => piece.toString(16)).join(":");
    const shown = start < 0 ? hex(pieces) : hex(pieces.slice(0, start)) + "::" + hex(pieces.slice(start + length));
    return `[${shown}]`;
  }
  // undefined: not a host
  function parseHost(text, isOpaque) {
    if (text[0] === "[") return text.at(-1) === "]" ? ipv6(text.slice(1, -1)) : undefined;
    if (isOpaque) return FORBIDDEN.test(text) ? undefined : encode(text, CONTROLS);
    const domain = domainToAscii(utf8(percentDecoded(text)));
    if (domain === "" || FORBIDDEN_DOMAIN.test(domain) || domain.includes("\ufffd")) return undefined;
    return endsInNumber(domain) ? ipv4(domain) : domain;
  }

  // ── the parser ─────────────────────────────────────────────────────────────────────────────────────────────
  const isDrive = (text) => /^[a-z][:|]$/i.test(text), isNormalDrive = (text) => /^[a-z]:$/i.test(text);
  const startsWithDrive = (text) => /^[a-z][:|]([/\\?#]|$)/i.test(text);
  const isSingleDot = (part) => /^(\.|%2e)$/i.test(part), isDoubleDot = (part) => /^(\.|%2e){2}$/i.test(part);
  const record = () => ({ scheme: "", username: "", password: "", host: null, port: null, path: [], isOpaque: false,
    query: null, fragment: null });
  function shorten(url) {
    if (url.scheme === "file" && url.path.length === 1 && isNormalDrive(url.path[0])) return;
    url.path.pop();
  }
  const cannotHavePort = (url) => url.host === null || url.host === "" || url.scheme === "file";

  // The basic URL parser. With `state` it changes one part of `url`; returns undefined for a failure.
  function parse(input, base, url, override) {
    let text = input;
    if (url === undefined) {
      url = record();
      text = text.replace(/^[\0-\x20]+|[\0-\x20]+$/g, "");
    }
    const chars = Array.from(text.replace(/[\t\n\r]/g, ""));
    let state = override ?? "scheme start", buffer = "", at = 0, seenAt = false, inBrackets = false, seenPassword = false;
    const rest = (from = at + 1) => chars.slice(from).join("");
    const special = () => isSpecialScheme(url.scheme);
    for (; ; at++) {
      const c = chars[at];  // undefined at the end
      switch (state) {
        case "scheme start":
          if (c !== undefined && /[a-z]/i.test(c)) { buffer += c.toLowerCase(); state = "scheme"; }
          else if (!override) { state = "no scheme"; at--; }
          else return undefined;
          break;
        case "scheme":
          if (c !== undefined && /[a-z0-9+\-.]/i.test(c)) buffer += c.toLowerCase();
          else if (c === ":") {
            if (override) {
              if (special() !== isSpecialScheme(buffer)) return url;
              if (buffer === "file" && (url.username || url.password || url.port !== null)) return url;
              if (url.scheme === "file" && !url.host) return url;
            }
            url.scheme = buffer;
            if (override) { if (url.port === PORTS[url.scheme]) url.port = null; return url; }
            buffer = "";
            if (url.scheme === "file") state = "file";
            else if (special() && base && base.scheme === url.scheme) state = "special relative or authority";
            else if (special()) state = "special authority slashes";
            else if (chars[at + 1] === "/") { state = "path or authority"; at++; }
            else { url.path = ""; url.isOpaque = true; state = "opaque path"; }
          } else if (!override) { buffer = ""; state = "no scheme"; at = -1; }
          else return undefined;
          break;
        case "no scheme":
          if (!base || (base.isOpaque && c !== "#")) return undefined;
          if (base.isOpaque) {
            Object.assign(url, { scheme: base.scheme, path: base.path, isOpaque: true, query: base.query, fragment: "" });
            state = "fragment";
          } else { state = base.scheme === "file" ? "file" : "relative"; at--; }
          break;
        case "special relative or authority":
          if (c === "/" && chars[at + 1] === "/") { state = "special authority ignore slashes"; at++; }
          else { state = "relative"; at--; }
          break;
        case "path or authority":
          if (c === "/") state = "authority";
          else { state = "path"; at--; }
          break;
        case "relative":
          url.scheme = base.scheme;
          if (c === "/") state = "relative slash";
          else if (special() && c === "\\") state = "relative slash";
          else {
            Object.assign(url, { username: base.username, password: base.password, host: base.host, port: base.port,
              path: [...base.path], query: base.query });
            if (c === "?") { url.query = ""; state = "query"; }
            else if (c === "#") { url.fragment = ""; state = "fragment"; }
            else if (c !== undefined) { url.query = null; shorten(url); state = "path"; at--; }
          }
          break;
        case "relative slash":
          if (special() && (c === "/" || c === "\\")) state = "special authority ignore slashes";
          else if (c === "/") state = "authority";
          else {
            Object.assign(url, { username: base.username, password: base.password, host: base.host, port: base.port });
            state = "path";
            at--;
          }
          break;
        case "special authority slashes":
          state = "special authority ignore slashes";
          if (c === "/" && chars[at + 1] === "/") at++;
          else at--;
          break;
        case "special authority ignore slashes":
          if (c !== "/" && c !== "\\") { state = "authority"; at--; }
          break;
        case "authority":
          if (c === "@") {
            if (seenAt) buffer = "%40" + buffer;
            seenAt = true;
            for (const char of buffer) {
              if (char === ":" && !seenPassword) { seenPassword = true; continue; }
              if (seenPassword) url.password += encodeChar(char, USERINFO);
              else url.username += encodeChar(char, USERINFO);
            }
            buffer = "";
          } else if (c === undefined || c === "/" || c === "?" || c === "#" || (special() && c === "\\")) {
            if (seenAt && buffer === "") return undefined;
            at -= Array.from(buffer).length + 1;
            buffer = "";
            state = "host";
          } else buffer += c;
          break;
        case "host":
        case "hostname":
          if (override && url.scheme === "file") { at--; state = "file host"; }
          else if (c === ":" && !inBrackets) {
            if (buffer === "") return undefined;
            if (override === "hostname") return undefined;
            const host = parseHost(buffer, !special());
            if (host === undefined) return undefined;
            url.host = host;
            buffer = "";
            state = "port";
          } else if (c === undefined || c === "/" || c === "?" || c === "#" || (special() && c === "\\")) {
            at--;
            if (special() && buffer === "") return undefined;
            if (override && buffer === "" && (url.username || url.password || url.port !== null)) return undefined;
            const host = parseHost(buffer, !special());
            if (host === undefined) return undefined;
            url.host = host;
            buffer = "";
            state = "path start";
            if (override) return url;
          } else {
            if (c === "[") inBrackets = true;
            if (c === "]") inBrackets = false;
            buffer += c;
          }
          break;
        case "port":
          if (c !== undefined && /[0-9]/.test(c)) buffer += c;
          else if (c === undefined || c === "/" || c === "?" || c === "#" || (special() && c === "\\") || override) {
            if (buffer !== "") {
              const port = parseInt(buffer, 10);
              if (port > 65535) return undefined;
              url.port = port === PORTS[url.scheme] ? null : port;
              buffer = "";
              if (override) return url;
            }
            if (override) return undefined;
            state = "path start";
            at--;
          } else return undefined;
          break;
        case "file":
          url.scheme = "file";
          url.host = "";
          if (c === "/" || c === "\\") state = "file slash";
          else if (base && base.scheme === "file") {
            Object.assign(url, { host: base.host, path: [...base.path], query: base.query });
            if (c === "?") { url.query = ""; state = "query"; }
            else if (c === "#") { url.fragment = ""; state = "fragment"; }
            else if (c !== undefined) {
              url.query = null;
              if (startsWithDrive(rest(at))) url.path = [];
              else shorten(url);
              state = "path";
              at--;
            }
          } else { state = "path"; at--; }
          break;
        case "file slash":
          if (c === "/" || c === "\\") state = "file host";
          else {
            if (base && base.scheme === "file") {
              url.host = base.host;
              if (!startsWithDrive(rest(at)) && base.path.length && isNormalDrive(base.path[0])) url.path.push(base.path[0]);
            }
            state = "path";
            at--;
          }
          break;
        case "file host":
          if (c === undefined || c === "/" || c === "\\" || c === "?" || c === "#") {
            at--;
            if (!override && isDrive(buffer)) state = "path";
            else if (buffer === "") {
              url.host = "";
              if (override) return url;
              state = "path start";
            } else {
              let host = parseHost(buffer, false);
              if (host === undefined) return undefined;
              if (host === "localhost") host = "";
              url.host = host;
              if (override) return url;
              buffer = "";
              state = "path start";
            }
          } else buffer += c;
          break;
        case "path start":
          if (special()) { state = "path"; if (c !== "/" && c !== "\\") at--; }
          else if (!override && c === "?") { url.query = ""; state = "query"; }
          else if (!override && c === "#") { url.fragment = ""; state = "fragment"; }
          else if (c !== undefined) { state = "path"; if (c !== "/") at--; }
          else if (override && url.host === null) url.path.push("");
          break;
        case "path": {
          const slash = c === "/" || (special() && c === "\\");
          if (c === undefined || slash || (!override && (c === "?" || c === "#"))) {
            if (isDoubleDot(buffer)) { shorten(url); if (!slash) url.path.push(""); }
            else if (isSingleDot(buffer)) { if (!slash) url.path.push(""); }
            else {
              if (url.scheme === "file" && !url.path.length && isDrive(buffer)) buffer = buffer[0] + ":";
              url.path.push(buffer);
            }
            buffer = "";
            if (c === "?") { url.query = ""; state = "query"; }
            if (c === "#") { url.fragment = ""; state = "fragment"; }
          } else buffer += encodeChar(c, PATH);
          break;
        }
        case "opaque path":
          if (c === "?") { url.query = ""; state = "query"; }
          else if (c === "#") { url.fragment = ""; state = "fragment"; }
          else if (c !== undefined) url.path += encodeChar(c, CONTROLS);
          break;
        case "query":
          if (c === undefined || (!override && c === "#")) {
            url.query += encode(buffer, special() ? SPECIAL_QUERY : QUERY);
            buffer = "";
            if (c === "#") { url.fragment = ""; state = "fragment"; }
          } else buffer += c;
          break;
        case "fragment":
          if (c !== undefined) url.fragment += encodeChar(c, FRAGMENT);
          break;
      }
      if (c === undefined && at >= chars.length) break;
    }
    return url;
  }

  const pathOf = (url) => (url.isOpaque ? url.path : url.path.map((part) => "/" + part).join(""));
  function serialize(url, withoutFragment) {
    let text = url.scheme + ":";
    if (url.host !== null) {
      text += "//";
      if (url.username || url.password) text += url.username + (url.password && ":" + url.password) + "@";
      text += url.host + (url.port === null ? "" : ":" + url.port);
    } else if (!url.isOpaque && url.path.length > 1 && url.path[0] === "") text += "/.";
    text += pathOf(url) + (url.query === null ? "" : "?" + url.query);
    return text + (withoutFragment || url.fragment === null ? "" : "#" + url.fragment);
  }

  // ── URLSearchParams ────────────────────────────────────────────────────────────────────────────────────────
  const formDecoded = (text) => utf8(percentDecoded(text.replaceAll("+", " ")));
  const formEncoded = (text) => encode(text.toWellFormed(), FORM).replaceAll("%20", "+");
  const well = (value) => String(value).toWellFormed();
  const parsePairs = (text) => text.split("&").filter(Boolean).map((part) => {
    const equals = part.indexOf("=");
    return equals < 0 ? [formDecoded(part), ""] : [formDecoded(part.slice(0, equals)), formDecoded(part.slice(equals + 1))];
  });
  let attach, refresh;

  class URLSearchParams {
    #pairs = []; #changed = () => {};
    static {
      attach = (params, query, changed) => { params.#pairs = parsePairs(query); params.#changed = changed; };
      refresh = (params, query) => { params.#pairs = parsePairs(query); };
    }
    constructor(init = "") {
      if (typeof init === "object" && init !== null && typeof init[Symbol.iterator] === "function") {
        for (const pair of init) {
          const items = [...pair];
          if (items.length !== 2) throw new TypeError("each pair has to have a name and a value");
          this.#pairs.push([well(items[0]), well(items[1])]);
        }
      } else if (typeof init === "object" && init !== null) {
        for (const name of Object.keys(init)) this.#pairs.push([well(name), well(init[name])]);
      } else {
        const text = well(init);
        this.#pairs = parsePairs(text[0] === "?" ? text.slice(1) : text);
      }
    }
    get size() { return this.#pairs.length; }
    append(name, value) { this.#pairs.push([well(name), well(value)]); this.#changed(); }
    delete(name, value) {
      const key = well(name);
      this.#pairs = this.#pairs.filter((pair) => pair[0] !== key || (value !== undefined && pair[1] !== well(value)));
      this.#changed();
    }
    get(name) { return this.#pairs.find((pair) => pair[0] === well(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter((pair) => pair[0] === well(name)).map((pair) => pair[1]); }
    has(name, value) {
      return this.#pairs.some((pair) => pair[0] === well(name) && (value === undefined || pair[1] === well(value)));
    }
    set(name, value) {
      const key = well(name), first = this.#pairs.findIndex((pair) => pair[0] === key);
      if (first < 0) this.#pairs.push([key, well(value)]);
      else {
        this.#pairs[first][1] = well(value);
        this.#pairs = this.#pairs.filter((pair, place) => place <= first || pair[0] !== key);
      }
      this.#changed();
    }
    sort() { this.#pairs.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0)); this.#changed(); }
    forEach(call, self) { for (const [name, value] of this) call.call(self, value, name, this); }
    *entries() { for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]]; }
    *keys() { for (const [name] of this) yield name; }
    *values() { for (const [, value] of this) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([name, value]) => formEncoded(name) + "=" + formEncoded(value)).join("&"); }
    get [Symbol.toStringTag]() { return "URLSearchParams"; }
  }

  // ── URL ────────────────────────────────────────────────────────────────────────────────────────────────────
  function parsed(text, base) {
    const above = base === undefined ? undefined : parse(well(base));
    return base !== undefined && above === undefined ? undefined : parse(well(text), above);
  }

  class URL {
    #url; #params;
    constructor(text, base) {
      if (!arguments.length) throw new TypeError("URL needs an argument");
      const found = parsed(text, base);
      if (found === undefined) throw new TypeError(`Invalid URL: '${text}'${base === undefined ? "" : ` with the base '${base}'`}`);
      this.#take(found);
    }
    #take(found) {
      this.#url = found;
      if (this.#params) refresh(this.#params, found.query ?? "");
      else {
        this.#params = new URLSearchParams();
        attach(this.#params, found.query ?? "", () => {
          const query = this.#params.toString();
          this.#url.query = query === "" ? null : query;
        });
      }
    }
    // change one part; what is not valid changes nothing
    #change(state, text, prepare) {
      const copy = { ...this.#url, path: this.#url.isOpaque ? this.#url.path : [...this.#url.path] };
      prepare?.(copy);
      const found = parse(well(text), undefined, copy, state);
      if (found !== undefined) this.#url = found;
    }
    static canParse(text, base) { return parsed(text, base) !== undefined; }
    static parse(text, base) { return URL.canParse(text, base) ? new URL(text, base) : null; }
    get href() { return serialize(this.#url); }
    set href(text) {
      const found = parse(well(text));
      if (found === undefined) throw new TypeError(`Invalid URL: '${text}'`);
      this.#take(found);
    }
    get origin() {
      const url = this.#url;
      if (url.scheme === "blob") {
        const inner = parse(pathOf(url));
        return inner && (inner.scheme === "http" || inner.scheme === "https") ? new URL(serialize(inner)).origin : "null";
      }
      return !isSpecialScheme(url.scheme) || url.scheme === "file" ? "null" : this.protocol + "//" + this.host;
    }
    get protocol() { return this.#url.scheme + ":"; }
    set protocol(text) { this.#change("scheme start", text + ":"); }
    get username() { return this.#url.username; }
    set username(text) { if (!cannotHavePort(this.#url)) this.#url.username = encode(well(text), USERINFO); }
    get password() { return this.#url.password; }
    set password(text) { if (!cannotHavePort(this.#url)) this.#url.password = encode(well(text), USERINFO); }
    get host() { return this.hostname + (this.#url.port === null ? "" : ":" + this.#url.port); }
    set host(text) {
      const given = well(text).replace(/[\t\n\r]/g, "");
      if (this.#url.isOpaque || given[0] === ":") return;
      if (this.#url.scheme === "file") { this.#change("hostname", given); return; }
      // the host counts also where the port behind it does not
      const found = /^(\[[^\]]*\]|[^:/?#\\]*)(:\d+)?/.exec(given);
      this.#change("hostname", found[1]);
      if (found[2] && this.#url.host) this.port = found[2].slice(1);
    }
    get hostname() { return this.#url.host ?? ""; }
    set hostname(text) { if (!this.#url.isOpaque) this.#change("hostname", text); }
    get port() { return this.#url.port === null ? "" : String(this.#url.port); }
    set port(text) {
      if (cannotHavePort(this.#url)) return;
      if (well(text) === "") this.#url.port = null;
      else this.#change("port", text);
    }
    get pathname() { return pathOf(this.#url); }
    set pathname(text) { if (!this.#url.isOpaque) this.#change("path start", text, (url) => { url.path = []; }); }
    get search() { return this.#url.query ? "?" + this.#url.query : ""; }
    set search(text) {
      const given = well(text);
      if (given === "") this.#url.query = null;
      else this.#change("query", given[0] === "?" ? given.slice(1) : given, (url) => { url.query = ""; });
      refresh(this.#params, this.#url.query ?? "");
    }
    get searchParams() { return this.#params; }
    get hash() { return this.#url.fragment ? "#" + this.#url.fragment : ""; }
    set hash(text) {
      const given = well(text);
      if (given === "") this.#url.fragment = null;
      else this.#change("fragment", given[0] === "#" ? given.slice(1) : given, (url) => { url.fragment = ""; });
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
    get [Symbol.toStringTag]() { return "URL"; }
  }

  for (const [name, value] of Object.entries({ URL, URLSearchParams }))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
})();
