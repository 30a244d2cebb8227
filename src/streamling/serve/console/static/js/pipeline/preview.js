// Runs a pipeline without its sinks for a moment and shows rows of every node.
import { readEvents } from "../api.js";
import { Button, ErrorBox, html, Icon, useEffect, useRef, useState } from "../ui.js";
import { RowsTable } from "./rows_table.js";

const SECONDS = 30;
const ROWS = 20;
const MESSAGES = {
  starting: "A process for the preview is starting, which takes a few seconds.",
  running: `The preview ends ${SECONDS} seconds after the first rows, or when every node has shown ${ROWS} rows.`,
  stopped: "The preview was stopped. Nothing was written.",
  ended: "The preview has ended. Nothing was written.",
  late: `The time is up: not every node has shown ${ROWS} rows. Nothing was written.`,
};

// `start(path, body)` begins a preview and ends the one before.
export function usePreview() {
  const [preview, setPreview] = useState(null);
  const running = useRef(null);
  const stop = () => running.current?.abort();
  useEffect(() => stop, []);
  const start = async (path, body) => {
    stop();
    const current = new AbortController();
    running.current = current;
    const update = (change) => running.current === current && setPreview((known) => ({ ...known, ...change(known) }));
    setPreview({ state: "starting", nodes: [], rows: {}, error: null });
    let number = 0;
    let end = "ended";
    const onEvent = (name, data) => {
      if (name === "nodes") update(() => ({ state: "running", nodes: data }));
      if (name === "end" && data.time_is_up) end = "late";
      if (name !== "message") return;
      number += 1;
      const node = data.topology_node_key;
      const entry = { id: number, row: data.data };
      update(({ rows }) => ({ rows: { ...rows, [node]: [...(rows[node] ?? []), entry] } }));
    };
    try {
      await readEvents(`${path}?${new URLSearchParams({ duration_seconds: SECONDS, rows: ROWS })}`, onEvent, current.signal, { method: "POST", body });
      update(() => ({ state: end }));
    } catch (error) {
      update(() => (current.signal.aborted ? { state: "stopped" } : { state: "failed", error }));
    }
  };
  return [preview, start, stop];
}

export const isActive = (preview) => ["starting", "running"].includes(preview?.state);

function NodeRows({ node, rows, isOver }) {
  return html`<section class="preview-node" aria-labelledby="preview-${node.name}">
    <h3 id="preview-${node.name}"><${Icon} name=${node.kind} />${node.name} <span class="muted small">${node.type} ${node.kind} · ${rows.length} ${rows.length === 1 ? "row" : "rows"}</span></h3>
    ${rows.length > 0 ? html`<${RowsTable} rows=${rows} label="Rows of ${node.name}" />`
      : html`<p class="muted">${isOver ? "No rows." : "Waiting for rows …"}</p>`}</section>`;
}

export function PreviewCard({ preview, onStop }) {
  const card = useRef();
  useEffect(() => card.current.scrollIntoView({ block: "nearest" }), []);
  const { state, nodes, rows, error } = preview;
  return html`<section class="card preview" aria-label="Preview" ref=${card}>
    <div class="card-head"><h2>Preview</h2>${isActive(preview) && html`<${Button} icon="close" onClick=${onStop}>Stop<//>`}</div>
    <p class="muted" role="status">${MESSAGES[state] ?? ""}</p>
    ${error && html`<${ErrorBox} error=${error} title="The preview has failed" />`}
    ${nodes.map((node) => html`<${NodeRows} key=${node.name} node=${node} rows=${rows[node.name] ?? []} isOver=${!isActive(preview)} />`)}
  </section>`;
}
