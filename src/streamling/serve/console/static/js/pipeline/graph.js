// The topology: nodes are buttons over a drawing of the edges.
import { count, percent, rate } from "../format.js";
import { useMedia } from "../hooks.js";
import { html, Icon, StateBadge, useMemo } from "../ui.js";
import { Canvas } from "./canvas.js";
import { layoutOf } from "./layout.js";

const SHARES = ["busy", "blocked", "starved"];

export function ShareBar({ node }) {
  if (node.busy === null || node.busy === undefined) return null;
  const text = SHARES.map((share) => `${share} ${percent(node[share])}`).join(", ");
  return html`<span class="shares" role="img" aria-label=${text} title=${text}>
    ${SHARES.map((share) => html`<span key=${share} class="share ${share}" style=${{ width: `${Math.min(1, node[share] ?? 0) * 100}%` }} />`)}
  </span>`;
}

function Node({ node, place, isSelected, isFound, onSelect }) {
  const { rate_out: flow, rows_out: rows } = node;
  const isRated = flow !== null && flow !== undefined;
  return html`<button type="button" class="node ${node.status} ${node.kind} ${isFound ? "found" : ""}" data-node=${node.name} title=${node.status_reason}
    aria-pressed=${isSelected ? "true" : "false"} onClick=${() => onSelect(node.name)}
    style=${{ left: `${place.left}px`, top: `${place.top}px`, width: `${place.width}px`, height: `${place.height}px` }}>
    <span class="node-name"><${Icon} name=${node.kind} /><span class="hidden">${node.kind}</span><span class="clip">${node.name}</span>
      ${node.instances > 1 && html`<span class="instances" title="Instances">×${node.instances}</span>`}</span>
    <span class="node-type clip">${node.type}${node.description ? ` · ${node.description}` : ""}</span>
    <span class="node-line"><${StateBadge} state=${node.status} /><span class="number">${isRated || rows === null ? rate(flow) : `${count(rows)} ${rows === 1 ? "row" : "rows"}`}</span></span>
    <${ShareBar} node=${node} />
  </button>`;
}

function Edge({ edge, drawing }) {
  const isRejected = edge.kind === "rejected";
  const label = [...(isRejected ? ["rejected"] : []), ...(edge.rate === null ? [] : [rate(edge.rate)])].join(" ");
  return html`<g class="edge ${isRejected ? "rejected" : ""} ${edge.rate > 0 ? "moving" : ""}">
    <path d=${drawing.path} class="edge-line" marker-end="url(#arrow)" />
    <text x=${drawing.x} y=${drawing.y - 6} text-anchor="middle">${label}</text>
  </g>`;
}

export function TopologyGraph({ nodes, edges, selected, onSelect }) {
  const isNarrow = useMedia("(max-width: 720px)");
  const shape = JSON.stringify([nodes.map((node) => node.name), edges.map((edge) => [edge.from, edge.to, edge.kind]), isNarrow]);
  const drawing = useMemo(() => layoutOf(nodes, edges, isNarrow), [shape]);
  return html`<${Canvas} drawing=${drawing} nodes=${nodes} onSelect=${onSelect}>${(isFound) => html`
    <svg width=${drawing.width} height=${drawing.height} aria-hidden="true">
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto-start-reverse">
        <path d="M0 0 8 4 0 8z" class="arrow" /></marker></defs>
      ${edges.map((edge, index) => html`<${Edge} key=${`${edge.from} ${edge.to} ${edge.kind}`} edge=${edge} drawing=${drawing.edges[index]} />`)}
    </svg>
    ${nodes.map((node) => html`<${Node} key=${node.name} node=${node} place=${drawing.nodes[node.name]}
      isSelected=${node.name === selected} isFound=${isFound(node.name)} onSelect=${onSelect} />`)}`}<//>`;
}

export function Legend() {
  return html`<ul class="legend" aria-label="Legend">
    <li><span class="share busy" />busy: works on rows</li>
    <li><span class="share blocked" />blocked: waits for the next node</li>
    <li><span class="share starved" />starved: waits for rows</li>
    <li><svg width="22" height="8" aria-hidden="true" class="rejected-key"><path d="M1 4H21" class="edge-line" /></svg>rejected rows</li>
  </ul>`;
}

// The same numbers as a table, sorted like the graph.
export function NodesTable({ nodes, onSelect }) {
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="Nodes"><table class="data">
    <thead><tr><th>Node</th><th>Status</th><th>Time spent</th><th class="number">Rows in</th><th class="number">Rows out</th>
      <th class="number">Batch</th><th class="number">Queue</th><th class="number">Lag</th><th class="number">Rejected</th></tr></thead>
    <tbody>${nodes.map((node) => html`<tr key=${node.name}>
      <th scope="row"><button type="button" class="link" onClick=${() => onSelect(node.name)}>${node.name}</button>
        <span class="muted small">${node.kind} ${node.type}</span></th>
      <td><${StateBadge} state=${node.status} /></td><td><${ShareBar} node=${node} /></td>
      <td class="number">${count(node.rows_in)}</td><td class="number">${count(node.rows_out)}</td>
      <td class="number">${node.batch ? `${count(node.batch.rows)} in ${Math.round(node.batch.ms)} ms` : "–"}</td>
      <td class="number">${node.queue ? `${node.queue.length} of ${node.queue.capacity}` : "–"}</td>
      <td class="number">${count(node.lag)}</td><td class="number">${count(node.rejected)}</td>
    </tr>`)}</tbody></table></div>`;
}
