import { useEvents } from "../hooks.js";
import { Button, Empty, ErrorBox, html, useRef, useState } from "../ui.js";
import { KINDS, RowsTable } from "./rows_table.js";

const KEPT = 100;
// the rows that the server has kept arrive first, newest first
const STORED_MILLISECONDS = 400;
// `nodes`: the node itself, or for a sink the nodes whose rows it takes.
export function LiveRows({ base, node, nodes }) {
  const [rows, setRows] = useState([]);
  const [isStopped, setStopped] = useState(false);
  const [kinds, setKinds] = useState({ i: true, u: true, d: true });
  const [draft, setDraft] = useState("");
  const [filter, setFilter] = useState("");
  const number = useRef(0);
  const chosen = Object.keys(kinds).filter((kind) => kinds[kind]);
  const query = new URLSearchParams({ topology_node_keys: nodes.join(",") });
  if (filter) query.set("filter", filter);
  if (chosen.length < 3) query.set("kinds", chosen.join(","));
  const path = isStopped || !chosen.length ? null : `${base}/live-data?${query}`;
  const opened = useRef(0);
  const status = useEvents(path, (name, event) => {
    if (name === "open") { opened.current = performance.now(); setRows([]); return; }
    number.current += 1;
    const entry = { id: number.current, row: event.data };
    const isStored = performance.now() - opened.current < STORED_MILLISECONDS;
    setRows((known) => (isStored ? [...known, entry] : [entry, ...known]).slice(0, KEPT));
  });
  const restart = (change) => { setRows([]); change(); };
  return html`<div class="live">
    <form class="filters" onSubmit=${(event) => { event.preventDefault(); restart(() => setFilter(draft.trim())); }}>
      <fieldset class="kinds"><legend class="hidden">Row kinds</legend>${Object.entries(KINDS).map(([kind, [name]]) => html`<label key=${kind}>
        <input type="checkbox" checked=${kinds[kind]} onChange=${() => restart(() => setKinds({ ...kinds, [kind]: !kinds[kind] }))} />${name}</label>`)}</fieldset>
      <label class="field-inline grow"><span class="hidden">Filter expression</span>
        <input value=${draft} placeholder="Filter, such as amount > 100" spellcheck="false" onInput=${(event) => setDraft(event.target.value)} /></label>
      <button type="submit" class="button">Apply</button>
      <${Button} icon=${isStopped ? "play" : "paused"} onClick=${() => setStopped(!isStopped)}>${isStopped ? "Continue" : "Hold"}<//>
    </form>
    ${status.state === "failed" && html`<${ErrorBox} error=${status.error} title="Rows cannot be shown" />`}
    ${rows.length > 0 && html`<${RowsTable} rows=${rows} label="Live rows of ${node}" />`}
    ${rows.length === 0 && status.state !== "failed" && html`<${Empty} title=${status.state === "ended" ? "The pipeline has ended" : "Waiting for rows"}>
      <p>Rows appear here as they ${nodes.includes(node) ? "leave" : "arrive at"} this node. It shows a sample, so that watching does not slow the pipeline down.</p><//>`}
    <p class="muted small" role="status">${isStopped ? "On hold: the newest rows are not shown." : `A sample, newest first; at most ${KEPT} rows are kept.`}</p>
  </div>`;
}
