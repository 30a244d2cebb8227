// atob and btoa (html.spec.whatwg.org/multipage/webappapis.html#atob).
(() => {
  "use strict";
  const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const NUMBERS = Object.create(null);
  for (let i = 0; i < 64; i++) NUMBERS[LETTERS[i]] = i;
  const refuse = (message) => { throw new DOMException(message, "InvalidCharacterError"); };
  const needs = (count, name) => { if (!count) throw new TypeError(`${name} needs an argument`); };

  function btoa(data) {
    needs(arguments.length, "btoa");
    const text = String(data);
    let made = "";
    for (let i = 0; i < text.length; i += 3) {
      const a = text.charCodeAt(i), b = text.charCodeAt(i + 1), c = text.charCodeAt(i + 2);
      if (a > 255 || b > 255 || c > 255) refuse("the text has characters beyond U+00FF: encode it first, as with TextEncoder");
      made += LETTERS[a >> 2] + LETTERS[((a & 3) << 4) | (b >> 4)]
        + (i + 1 < text.length ? LETTERS[((b & 15) << 2) | (c >> 6)] : "=")
        + (i + 2 < text.length ? LETTERS[c & 63] : "=");
    }
    return made;
  }

  function atob(data) {
    needs(arguments.length, "atob");
    let text = String(data).replace(/[\t\n\f\r ]/g, "");
    if (text.length % 4 === 0) text = text.replace(/==?$/, "");
    if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) refuse("the text is not base64");
    let made = "", bits = 0, count = 0;
    for (let i = 0; i < text.length; i++) {
      bits = ((bits << 6) | NUMBERS[text[i]]) & 0xffffff;
      count += 6;
      if (count >= 8) { count -= 8; made += String.fromCharCode((bits >> count) & 255); }
    }
    return made;
  }

  for (const [name, value] of Object.entries({ atob, btoa }))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
})();
