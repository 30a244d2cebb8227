import { html } from "../ui.js";

const WIDTH = 96;
const HEIGHT = 24;

export function Sparkline({ values = [] }) {
  const top = Math.max(...values, 1);
  const step = WIDTH / 59;
  const start = WIDTH - (values.length - 1) * step;
  const points = values.map((value, index) => `${(start + index * step).toFixed(1)},${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`);
  return html`<svg class="sparkline" viewBox="0 0 ${WIDTH} ${HEIGHT}" width=${WIDTH} height=${HEIGHT} aria-hidden="true">
    <line x1="0" x2=${WIDTH} y1=${HEIGHT - 1} y2=${HEIGHT - 1} class="sparkline-base" />
    ${points.length > 1 && html`<polyline points=${points.join(" ")} />`}
  </svg>`;
}
