// Requests to the server that serves these files. The token stays in this tab.
const TOKEN = "streamling.token";
const FIRST_PAUSE = 1000;
const LONGEST_PAUSE = 15000;

export class ApiError extends Error {
  constructor(status, { code, message, remedy } = {}, problems = []) {
    super(message ?? `The server answered with status ${status}.`);
    Object.assign(this, { status, code, remedy, problems });
  }
}

const unauthorized = new Set();

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
  onMissing: (listener) => {
    unauthorized.add(listener);
    return () => unauthorized.delete(listener);
  },
};

async function open(method, path, { body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (token.get()) sent.Authorization = `Bearer ${token.get()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new ApiError(0, { message: "The server cannot be reached.", remedy: "Check that the process runs." });
  }
  if (response.ok) return response;
  if (response.status === 401) unauthorized.forEach((listener) => listener());
  const { error, problems } = await response.json().catch(() => ({}));
  throw new ApiError(response.status, error, problems);
}

// Integers with more digits than JavaScript keeps stay as they were written.
function exact(key, value, { source } = {}) {
  return typeof value === "number" && /^-?\d{16,}$/.test(source) && JSON.rawJSON ? JSON.rawJSON(source) : value;
}

const parse = (text) => JSON.parse(text, exact);

export async function request(method, path, options) {
  const response = await open(method, path, options);
  const text = await response.text();
  return text ? parse(text) : null;
}

export const get = (path, signal) => request("GET", path, { signal });

async function* pieces(response, separator) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(separator);
    rest = parts.pop();
    yield* parts;
  }
}

// One JSON object per line.
export async function lines(path, onLine, signal) {
  for await (const line of pieces(await open("GET", path, { signal }), "\n")) {
    if (line.trim()) onLine(parse(line));
  }
}

// Server-sent events over fetch, because EventSource cannot send a token. Returns after the event `end`; the event `error`
// says that the request cannot be answered any more.
export async function readEvents(path, onEvent, signal, { method = "GET", body } = {}) {
  const response = await open(method, path, { signal, body, headers: { Accept: "text/event-stream" } });
  onEvent("open");
  for await (const block of pieces(response, /\r?\n\r?\n/)) {
    const fields = block.split(/\r?\n/).map((line) => /^(event|data):\s?(.*)$/.exec(line)).filter(Boolean);
    const name = fields.find((field) => field[1] === "event")?.[2] ?? "message";
    const data = fields.filter((field) => field[1] === "data").map((field) => field[2]).join("\n");
    if (name === "end") return true;
    if (name === "error") throw new ApiError(400, JSON.parse(data).error);
    if (data) onEvent(name, parse(data));
  }
  return false;
}

const pause = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });

// Keeps a stream open until it ends, is aborted, or the server says that the request is wrong.
export async function follow(read, onStatus, signal) {
  for (let wait = FIRST_PAUSE; !signal.aborted; wait = Math.min(wait * 2, LONGEST_PAUSE)) {
    try {
      const ended = await read(() => { wait = FIRST_PAUSE; onStatus({ state: "live" }); });
      if (ended) return onStatus({ state: "ended" });
      onStatus({ state: "connecting" });
    } catch (error) {
      if (signal.aborted) return;
      const final = error.status >= 400 && error.status < 500 && ![408, 409, 429].includes(error.status);
      onStatus({ state: final ? "failed" : "connecting", error });
      if (final) return;
    }
    await pause(wait, signal);
  }
}

export const followEvents = (path, onEvent, onStatus, signal) =>
  follow((opened) => {
    const pass = (name, data) => { if (name === "open") opened(); onEvent(name, data); };
    return readEvents(path, pass, signal);
  }, onStatus, signal);
