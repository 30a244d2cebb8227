// A line chart over the last minutes. The newest numbers are also in the page as text.
import uPlot from "../../vendor/uplot.js";
import { html, useEffect, useRef, useState } from "../ui.js";
import { useWidth } from "../hooks.js";

const HEIGHT = 168;
const MARKS = [60, 300, 900];

// Custom properties with light-dark() are resolved when an element uses them.
function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function options(width, series, format, minutes) {
  const axis = { stroke: color("muted"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width, height: HEIGHT, legend: { show: false }, cursor: { drag: { x: false, y: false } }, padding: [12, 20, 0, 0],
    scales: { x: { time: false, range: [-minutes * 60, 0] }, y: { range: (chart, low, high) => [0, Math.max(high * 1.1, 10)] } },
    axes: [
      { ...axis, size: 28, incrs: MARKS, values: (chart, marks) => marks.map((mark) => (mark === 0 ? "now" : `${mark / 60} min`)) },
      { ...axis, size: 56, values: (chart, marks) => marks.map((mark) => format(mark)) },
    ],
    series: [{}, ...series.map(({ label, tone, dash }) => ({ label, stroke: color(tone), width: 2, dash, points: { show: false } }))],
  };
}

function useTheme() {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const update = () => setVersion((each) => each + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", update);
    addEventListener("themechange", update);
    return () => { media.removeEventListener("change", update); removeEventListener("themechange", update); };
  }, []);
  return version;
}

// `series`: [{label, tone, dash, values}], with one value for each of `times`, in seconds before now
function Lines({ series, times, minutes, format }) {
  const holder = useRef();
  const chart = useRef();
  const width = useWidth(holder);
  const theme = useTheme();
  const data = [times, ...series.map(({ values }) => values)];
  useEffect(() => {
    if (!width) return undefined;
    chart.current = new uPlot(options(width, series, format, minutes), data, holder.current);
    return () => chart.current.destroy();
  }, [width, theme, minutes]);
  useEffect(() => { if (width) chart.current.setData(data); });
  return html`<div class="chart-area" ref=${holder} aria-hidden="true" />`;
}

export function Chart({ title, series, times, minutes, format, empty }) {
  const isKnown = series.some(({ values }) => values.some((value) => value !== null));
  return html`<figure class="chart card">
    <figcaption><h3>${title}</h3>${series.map(({ label, tone, dash, values }) => html`<span key=${label} class="chart-key">
      <svg width="18" height="8" aria-hidden="true"><line x1="1" x2="17" y1="4" y2="4" class="tone-${tone}" stroke-dasharray=${dash?.join(" ")} /></svg>
      ${label} <strong class="number">${format(values.at(-1) ?? null)}</strong></span>`)}</figcaption>
    ${isKnown ? html`<${Lines} series=${series} times=${times} minutes=${minutes} format=${format} />` : html`<p class="chart-area chart-empty">${empty}</p>`}
  </figure>`;
}
