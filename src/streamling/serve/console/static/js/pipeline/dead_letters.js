import { get } from "../api.js";
import { cell, clock } from "../format.js";
import { usePolling } from "../hooks.js";
import { Empty, ErrorBox, html } from "../ui.js";

export function DeadLetters({ base, node }) {
  const path = `${base}/dead-letters?node=${encodeURIComponent(node)}&limit=50`;
  const { data: letters, error } = usePolling((signal) => get(path, signal), 3, path);
  if (error && !letters) return html`<${ErrorBox} error=${error} title="Rejected rows cannot be read" />`;
  if (!letters) return html`<p class="loading">Loading …</p>`;
  if (!letters.length) {
    return html`<${Empty} title="No rejected rows"><p>Rows that this node cannot use appear here if it has a dead-letter sink
      (<code>errors: {to: …}</code>). Without one, the first of them stops the pipeline.</p><//>`;
  }
  return html`<ul class="letters">${letters.map((letter, index) => html`<li key=${index}>
    <p class="letter-error">${letter.error}</p>
    <p class="muted small">${clock(letter.time)}${letter.position ? ` · ${cell(letter.position)}` : ""}</p>
    <pre class="code" tabindex="0" aria-label="Payload">${cell(letter.payload)}</pre></li>`)}</ul>`;
}
