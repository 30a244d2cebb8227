// Says how old figures are, as soon as they are not current.
import { clock, duration } from "./format.js";
import { useNow } from "./hooks.js";
import { html } from "./ui.js";

const CURRENT_SECONDS = 5;

// `at`: when the figures were taken, in milliseconds
export function AsOf({ at }) {
  const age = (useNow(1) - at) / 1000;
  if (!at || age < CURRENT_SECONDS) return null;
  return html`<p class="as-of">Figures as of ${clock(new Date(at).toISOString())}, ${duration(age)} ago</p>`;
}
