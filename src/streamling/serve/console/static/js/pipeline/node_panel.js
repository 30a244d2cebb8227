// Details of one node, beside the graph (below it on a phone).
import { count, duration, percent, rate } from "../format.js";
import { Button, Empty, html, StateBadge, Tabs, useEffect, useRef, useState } from "../ui.js";
import { Charts } from "./charts.js";
import { CodeView } from "./code_view.js";
import { DeadLetters } from "./dead_letters.js";
import { LiveRows } from "./live_rows.js";
import { Logs } from "./logs.js";
import { withPlaces } from "./places.js";

const TABS = [["overview", "Overview"], ["rows", "Live rows"], ["definition", "Definition"], ["letters", "Dead letters"], ["logs", "Logs"]];
// what only a pipeline that runs can show
const OF_RUNS = new Set(["rows", "letters"]);
const LANGUAGES = { sql: "sql", script: "javascript" };

function Schema({ schema }) {
  if (!schema?.length) return html`<p class="muted">The columns are known when the pipeline runs.</p>`;
  return html`<table class="data"><caption>Columns</caption><thead><tr><th>Name</th><th>Type</th><th>Nullable</th></tr></thead>
    <tbody>${schema.map(({ name, type, nullable }) => html`<tr key=${name}><th scope="row" class="code">${name}</th>
      <td class="code">${type}</td><td>${nullable ? "yes" : "no"}</td></tr>`)}</tbody></table>`;
}

function Overview({ base, node, fixed, linkPlaces }) {
  const pairs = [
    ["Rows in", `${count(node.rows_in)}, ${rate(node.rate_in)}`], ["Rows out", `${count(node.rows_out)}, ${rate(node.rate_out)}`],
    ["Time", `busy ${percent(node.busy)}, blocked ${percent(node.blocked)}, starved ${percent(node.starved)}`],
    ["Batch", node.batch ? `${count(node.batch.rows)} rows in ${Math.round(node.batch.ms)} ms` : "–"],
    ["Queue", node.queue ? `${node.queue.length} of ${node.queue.capacity} batches` : "–"],
    ["Rejected rows", count(node.rejected)],
    ...(node.deduplicated ? [["Deduplicated rows", count(node.deduplicated)]] : []),
    ...(node.skipped ? [["Skipped rows", count(node.skipped)]] : []),
    ...(node.lag === null || node.lag === undefined ? [] : [["Lag", `${count(node.lag)} rows`]]),
    ...(node.event_time ? [["Event time", `${node.event_time.watermark}, ${duration(node.event_time.lag_s)} behind`]] : []),
    ...(fixed?.location ? [["Defined in", withPlaces(fixed.location, linkPlaces)]] : []),
  ];
  return html`<p class="node-status"><${StateBadge} state=${node.status} /> ${withPlaces(node.status_reason ?? "", linkPlaces)}</p>
    <dl class="pairs">${pairs.map(([name, value]) => html`<dt key=${`${name}t`}>${name}</dt><dd key=${name} class="number">${value}</dd>`)}</dl>
    <${Charts} base=${base} node=${node.name} />
    <${Schema} schema=${fixed?.schema} />`;
}

function Content({ tab, base, node, fixed, upstreams, linkPlaces }) {
  switch (tab) {
    case "rows": return html`<${LiveRows} key=${node.name} base=${base} node=${node.name}
      nodes=${node.kind === "sink" ? upstreams : [node.name]} />`;
    case "letters": return html`<${DeadLetters} key=${node.name} base=${base} node=${node.name} />`;
    case "logs": return html`<${Logs} key=${node.name} base=${base} node=${node.name} />`;
    case "definition": return fixed?.definition
      ? html`<${CodeView} key=${node.name} text=${fixed.definition} language=${LANGUAGES[node.type] ?? "yaml"} label="Definition of ${node.name}" />`
      : html`<${Empty} title="No definition"><p>This node has no text of its own.</p><//>`;
    default: return html`<${Overview} base=${base} node=${node} fixed=${fixed} linkPlaces=${linkPlaces} />`;
  }
}

export function NodePanel({ base, node, fixed, upstreams, isLive, linkPlaces, onClose }) {
  const tabs = isLive ? TABS : TABS.filter(([key]) => !OF_RUNS.has(key));
  const [chosen, setTab] = useState("overview");
  const tab = tabs.some(([key]) => key === chosen) ? chosen : "overview";
  const heading = useRef();
  useEffect(() => heading.current.focus({ preventScroll: matchMedia("(min-width: 1100px)").matches }), [node.name]);
  const close = useRef();
  close.current = onClose;
  useEffect(() => {
    const listen = (event) => { if (event.key === "Escape" && !event.defaultPrevented && !document.querySelector("dialog[open]")) close.current(); };
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
  return html`<aside class="panel card" aria-labelledby="node-title">
    <div class="panel-head"><div><h2 id="node-title" tabindex="-1" ref=${heading}>${node.name}</h2>
      <p class="muted">${node.kind} · ${node.type}${fixed?.description ? ` · ${fixed.description}` : ""}</p></div>
      <${Button} icon="close" kind="quiet" label="Close details" onClick=${onClose} /></div>
    <${Tabs} id="node" label="Details of ${node.name}" tabs=${tabs} selected=${tab} onSelect=${setTab} />
    <div class="tab-panel" role="tabpanel" id="node-panel" aria-labelledby="node-tab-${tab}"><${Content} tab=${tab} base=${base} node=${node} fixed=${fixed} upstreams=${upstreams} linkPlaces=${linkPlaces} /></div>
  </aside>`;
}
