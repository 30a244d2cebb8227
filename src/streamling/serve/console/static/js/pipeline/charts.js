// Rates and lag over time: the buckets that the server keeps for an hour, and the last two minutes by the second.
import { get } from "../api.js";
import { count, rate } from "../format.js";
import { usePolling } from "../hooks.js";
import { html, useEffect, useState } from "../ui.js";
import { Chart } from "./chart.js";

const RANGES = { 5: "5 min", 15: "15 min", 60: "1 h" };
const FIELDS = ["rate_in", "rate_out", "lag"];
const LIVE_SECONDS = 120;
const LIVE_GAP = 3;

// kept while the tab shows other pages
let chosenMinutes = "15";

function useHistory(base, node) {
  const path = `${base}/history?minutes=60${node ? `&node=${encodeURIComponent(node)}` : ""}`;
  const load = async (signal) => ({ ...(await get(path, signal)), received: Date.now() });
  return usePolling(load, 10, path).data;
}

// Points by the second without gaps, up to now; they take the place of the buckets of that time.
function livePoints(live) {
  const ages = live?.age_s ?? [];
  const points = [];
  for (let index = ages.length - 1; index >= 0; index -= 1) {
    const newer = points[0] ? -points[0].time : 0;
    if (ages[index] - newer > LIVE_GAP || ages[index] > LIVE_SECONDS) break;
    points.unshift({ time: -ages[index], ...Object.fromEntries(FIELDS.map((field) => [field, live[field][index]])) });
  }
  return points;
}

function bucketPoints(history) {
  if (!history) return [];
  const age = history.age_s + (Date.now() - history.received) / 1000;
  const last = history.rate_in.length - 1;
  return history.rate_in.map((_, index) => ({ time: (index - last) * history.interval_s - age,
    ...Object.fromEntries(FIELDS.map((field) => [field, history[field][index]])) }));
}

// `live`: the history of the topology, if there is one
export function Charts({ base, node, live }) {
  const [minutes, setMinutes] = useState(chosenMinutes);
  useEffect(() => { chosenMinutes = minutes; }, [minutes]);
  const recent = livePoints(live);
  const from = recent[0]?.time ?? 0;
  const points = [...bucketPoints(useHistory(base, node)).filter(({ time }) => time < from), ...recent]
    .filter(({ time }) => time >= -minutes * 60);
  const times = points.map(({ time }) => time);
  const values = (field) => points.map((point) => point[field]);
  const name = node ? `range-${node}` : "range";
  return html`<section class="charts" aria-label="${node ? `Charts of ${node}` : "Charts"}">
    <fieldset class="ranges"><legend class="hidden">Time range</legend>${Object.entries(RANGES).map(([key, text]) => html`<label key=${key}>
      <input type="radio" name=${name} checked=${key === minutes} onChange=${() => setMinutes(key)} />${text}</label>`)}</fieldset>
    <${Chart} title="Rows per second" minutes=${minutes} times=${times} format=${rate} empty="No rows have been counted in this time." series=${[
      { label: node ? "in" : "read", tone: "accent", values: values("rate_in") },
      { label: node ? "out" : "delivered", tone: "good", dash: [6, 3], values: values("rate_out") }]} />
    <${Chart} title="Lag" minutes=${minutes} times=${times} format=${count} empty=${node ? "Nothing is known about the lag of this node."
      : "No source of this pipeline knows how many rows it has not read yet."} series=${[{ label: "rows", tone: "warn", values: values("lag") }]} />
  </section>`;
}
