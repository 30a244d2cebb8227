// Parts that all screens share.
import { html, useEffect, useState } from "../vendor/preact.js";

export * from "../vendor/preact.js";

const PATHS = {
  running: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13z",
  paused: "M3.5 2h3v12h-3zM9.5 2h3v12h-3z",
  failed: "M2 2h12v12H2zM5.6 4.5 4.5 5.6 6.9 8l-2.4 2.4 1.1 1.1L8 9.1l2.4 2.4 1.1-1.1L9.1 8l2.4-2.4-1.1-1.1L8 6.9z",
  waiting: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zm0 2a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9z",
  finished: "M6.2 13.3 1.4 8.5l1.7-1.7 3.1 3.1 6.7-6.7 1.7 1.7z",
  blocked: "M8 1 15 14.5H1zM7.2 6v4.2h1.6V6zm0 5.2v1.6h1.6v-1.6z",
  starved: "M8 1.5 14.5 8 8 14.5 1.5 8zM8 4.3 4.3 8 8 11.7 11.7 8z",
  retry: "M8 2.5a5.5 5.5 0 0 1 4.6 2.5V2.8H14v4.7H9.3V6.1h2.2A4.1 4.1 0 1 0 12 9.2l1.4.4A5.5 5.5 0 1 1 8 2.5z",
  play: "M4 2.2 13.5 8 4 13.8z",
  trash: "M6 1.5h4l.7 1H14V4H2V2.5h3.3zM3.2 5h9.6l-.7 9.5H3.9zm3 1.5.3 6.5h1.1l-.2-6.5zm2.4 0L8.4 13h1.1l.3-6.5z",
  edit: "m11.3 1.6 3.1 3.1-8.7 8.7-3.9.8.8-3.9zM3.9 10.9l-.4 1.6 1.6-.4z",
  save: "M2 2h9l3 3v9H2zm2.5 1.5v3h5v-3zM8 8.5a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  close: "m3.2 2 4.8 4.8L12.8 2 14 3.2 9.2 8l4.8 4.8-1.2 1.2L8 9.2 3.2 14 2 12.8 6.8 8 2 3.2z",
  search: "M6.8 1.5a5.3 5.3 0 0 1 4.2 8.5l3.5 3.5-1.1 1.1L9.9 11.1A5.3 5.3 0 1 1 6.8 1.5zm0 1.6a3.7 3.7 0 1 0 0 7.4 3.7 3.7 0 0 0 0-7.4z",
  theme: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM8 3v10A5 5 0 0 0 8 3z",
  source: "M2 3h12v2.5H2zm0 4h8v2H2zm0 3.5h12V13H2z",
  transform: "m8 1.5 6.5 6.5L8 14.5 1.5 8zM8 5 5 8l3 3 3-3z",
  sink: "M7 1.5h2v6h3L8 12 4 7.5h3zM2 12.5h12v2H2z",
  plus: "M7 2h2v5h5v2H9v5H7V9H2V7h5z",
  minus: "M2 7h12v2H2z",
  fit: "M2 2h4.5v1.5h-3v3H2zM9.5 2H14v4.5h-1.5v-3h-3zM2 9.5h1.5v3h3V14H2zM12.5 9.5H14V14H9.5v-1.5h3z",
  key: "M10.5 2a3.5 3.5 0 1 1-3.3 4.7H1.5v2.5H3v1.5h2V9.2h2.2A3.5 3.5 0 0 1 10.5 2zm.5 2.5a1 1 0 1 0 0 2 1 1 0 0 0 0-2z",
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path fill-rule="evenodd" d=${PATHS[name]} /></svg>`;
}

// Every state has a shape of its own: colour alone is not enough.
const STATES = {
  running: ["good", "running"], finished: ["good", "finished"], ok: ["good", "running"], complete: ["good", "finished"],
  "running, unstable": ["warn", "blocked"], failed: ["bad", "failed"], blocked: ["warn", "blocked"], retrying: ["warn", "retry"], restarting: ["warn", "retry"],
  paused: ["idle", "paused"], pausing: ["idle", "paused"], starved: ["cool", "starved"],
};

export const toneOf = (state) => (STATES[state] ?? ["idle"])[0];

export function StateBadge({ state, label = state }) {
  const [tone, icon] = STATES[state] ?? ["idle", "waiting"];
  return html`<span class="badge ${tone}"><${Icon} name=${icon} />${label}</span>`;
}

export function Button({ icon, children, kind = "", label, ...rest }) {
  return html`<button type="button" class="button ${kind} ${children ? "" : "square"}" aria-label=${label}
    title=${label} ...${rest}>${icon && html`<${Icon} name=${icon} />`}${children}</button>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><p class="empty-title">${title}</p><div class="empty-text">${children}</div></div>`;
}

// `text`: the message with links in it
export function ErrorBox({ error, title, text = error.message, children }) {
  return html`<div class="error-box" role="alert">
    <p><${Icon} name="failed" /><strong>${title ?? "Error"}</strong></p>
    <p class="error-message ${error.message.includes("\n") ? "code" : ""}">${text}</p>
    ${error.remedy && html`<p class="remedy"><strong>What to do:</strong> ${error.remedy}</p>`}${children}
  </div>`;
}

export function Tabs({ tabs, selected, onSelect, label, id }) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const index = tabs.findIndex(([key]) => key === selected);
    const next = tabs[(index + step + tabs.length) % tabs.length][0];
    onSelect(next);
    event.currentTarget.querySelector(`[data-tab="${next}"]`).focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map(([key, text]) => html`<button type="button" role="tab" key=${key} data-tab=${key} id="${id}-tab-${key}"
      aria-selected=${key === selected ? "true" : "false"} aria-controls=${key === selected ? `${id}-panel` : undefined}
      tabindex=${key === selected ? "0" : "-1"} onClick=${() => onSelect(key)}>${text}</button>`)}
  </div>`;
}

// ── messages at the edge of the screen ────────────────────────────────────────────────────────────────────────────

let showToast = () => {};

export function toast(message, tone = "good") {
  showToast({ message, tone, id: Math.random() });
}

export function toastError(error) {
  toast(error.remedy ? `${error.message} – ${error.remedy}` : error.message, "bad");
}

export function Toasts() {
  const [items, setItems] = useState([]);
  useEffect(() => {
    showToast = (item) => {
      setItems((all) => [...all.slice(-2), item]);
      setTimeout(() => setItems((all) => all.filter((each) => each !== item)), item.tone === "bad" ? 12000 : 5000);
    };
  }, []);
  return html`<div class="toasts" role="status" aria-live="polite">${items.map((item) => html`
    <p key=${item.id} class="toast ${item.tone}">
      <${Icon} name=${item.tone === "bad" ? "failed" : "finished"} /><span>${item.message}</span>
      <button type="button" aria-label="Dismiss" onClick=${() => setItems((all) => all.filter((each) => each !== item))}>
        <${Icon} name="close" /></button>
    </p>`)}</div>`;
}
