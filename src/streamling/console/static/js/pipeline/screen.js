import { isPaused, useActions } from "../actions.js";
import { get } from "../api.js";
import { since } from "../format.js";
import { useEvents, usePolling } from "../hooks.js";
import { editLink } from "../router.js";
import { Button, Empty, ErrorBox, html, StateBadge, Tabs, useEffect, useMemo, useState } from "../ui.js";
import { CodeView } from "./code_view.js";
import { Epochs } from "./epochs.js";
import { Legend, NodesTable, TopologyGraph } from "./graph.js";
import { Logs } from "./logs.js";
import { NodePanel } from "./node_panel.js";
import { isActive, PreviewCard, usePreview } from "./preview.js";
import { Charts, ProgressList, Stats } from "./stats.js";

const WITHOUT_TOPOLOGY = {
  paused: "The pipeline is paused and keeps its position. Resume it to see its topology.",
  failed: "The pipeline has failed. Fix the cause, then restart it.",
  finished: "The pipeline has read everything and has finished.",
  restarting: "The last attempt failed. The server starts the pipeline again after a pause.",
  starting: "The pipeline is starting.",
};

// The whole topology once, then what changes every second.
function useTopology(base, isLoaded) {
  const key = isLoaded ? base : null;
  const { data, error, reload } = usePolling((signal) => get(`${base}/topology`, signal), 30, key);
  const [latest, setLatest] = useState(null);
  useEffect(() => setLatest(null), [key]);
  const status = useEvents(data ? `${base}/topology/events` : null, (name, update) => name === "topology" && setLatest(update));
  const topology = latest ?? data;
  const fixed = useMemo(() => Object.fromEntries((data?.nodes ?? []).map((node) => [node.name, node])), [data]);
  const isNew = topology?.nodes.some((node) => !(node.name in fixed));
  useEffect(() => { if (isNew) reload(); }, [isNew]);
  return { topology, fixed, error, status };
}

function Actions({ pipeline, isFleet, act, onPreview }) {
  const paused = isPaused(pipeline);
  const isFixed = pipeline.managed_by === "dir";
  const hasEnded = ["finished", "failed"].includes(pipeline.state);
  return html`<div class="actions">
    ${(isFleet || !hasEnded) && html`<${Button} icon=${paused ? "play" : "paused"} disabled=${isFixed} onClick=${() => act(paused ? "resume" : "pause", pipeline)}>${paused ? "Resume" : "Pause"}<//>`}
    ${(isFleet || !hasEnded) && html`<${Button} icon="save" disabled=${pipeline.state !== "running"} onClick=${() => act("checkpoint", pipeline)}>Checkpoint<//>`}
    ${!isFleet && html`<${Button} icon="play" disabled=${!onPreview} onClick=${onPreview}>Preview<//>`}
    ${isFleet && html`<${Button} icon="retry" onClick=${() => act("restart", pipeline)}>Restart<//>
      ${!isFixed && html`<a class="button" href=${editLink(pipeline)}>Edit</a>`}
      <${Button} icon="trash" kind="danger-quiet" disabled=${isFixed} onClick=${() => act("delete", pipeline)}>Delete<//>`}
  </div>`;
}

function Title({ pipeline, isFleet, act, status, onPreview }) {
  const stale = isFleet || status.state === "live" || status.state === "ended" ? null : "Reconnecting …";
  return html`<div class="title-row pipeline-title">
    <div>${isFleet && html`<nav class="crumbs" aria-label="Path"><a href="#/">Pipelines</a> / ${pipeline.namespace}</nav>`}
      <h1>${pipeline.name}</h1>
      <p class="title-state"><${StateBadge} state=${pipeline.state} /><span class="muted">for ${since(pipeline.since)}</span>
        ${pipeline.managed_by === "dir" && html`<span class="tag">from a file of the server's folder: change it there</span>`}
        ${pipeline.generation > 0 && html`<span class="tag">generation ${pipeline.generation}</span><span class="tag">size ${pipeline.size}</span>`}
        ${pipeline.restarts > 0 && html`<span class="tag">${pipeline.restarts} restarts</span>`}
        ${stale && html`<span class="tag">${stale}</span>`}</p></div>
    <${Actions} pipeline=${pipeline} isFleet=${isFleet} act=${act} onPreview=${onPreview} />
  </div>`;
}

function Below({ base, topology, definition, onSelect }) {
  const [tab, setTab] = useState("nodes");
  const tabs = [["nodes", "Nodes"], ["epochs", "Epochs"], ["logs", "Logs"], ...(definition ? [["definition", "Pipeline file"]] : [])];
  const shown = topology ? tabs : tabs.slice(2);
  const selected = shown.some(([key]) => key === tab) ? tab : shown[0][0];
  return html`<section class="card below"><${Tabs} id="below" label="More about the pipeline" tabs=${shown} selected=${selected} onSelect=${setTab} />
    <div class="tab-panel" role="tabpanel" id="below-panel" aria-labelledby="below-tab-${selected}">
      ${selected === "nodes" && html`<${NodesTable} nodes=${topology.nodes} onSelect=${onSelect} />`}
      ${selected === "epochs" && html`<${Epochs} base=${base} />`}
      ${selected === "logs" && html`<${Logs} base=${base} />`}
      ${selected === "definition" && html`<${CodeView} text=${definition} language="yaml" label="Pipeline file" />`}
    </div></section>`;
}

function Topology({ base, topology, fixed, selected, onSelect }) {
  const nodes = topology.nodes.map((node) => ({ description: fixed[node.name]?.description, ...node }));
  const node = nodes.find((each) => each.name === selected);
  return html`<${Stats} topology=${topology} /><${ProgressList} nodes=${nodes} />
    <div class="workspace ${node ? "with-panel" : ""}">
      <div class="drawings"><section class="card graph-card" aria-label="Topology"><div class="card-head"><h2>Topology</h2><${Legend} /></div>
        <${TopologyGraph} nodes=${nodes} edges=${topology.edges} selected=${selected} onSelect=${onSelect} /></section>
        <${Charts} history=${topology.history} /></div>
      ${node && html`<${NodePanel} base=${base} node=${node} fixed=${fixed[node.name]}
        upstreams=${topology.edges.filter((edge) => edge.to === node.name).map((edge) => edge.from)} onClose=${() => {
        onSelect(null);
        document.querySelector(`[data-node="${CSS.escape(node.name)}"]`)?.focus();
      }} />`}
    </div>`;
}

export function PipelineScreen({ base, pipeline: key }) {
  const isFleet = Boolean(key);
  const known = usePolling((signal) => get(base, signal), 2, isFleet ? base : null);
  const object = known.data;
  const isLoaded = !isFleet || (object && object.state === "running");
  const { topology, fixed, error, status } = useTopology(base, isLoaded);
  const [selected, setSelected] = useState(null);
  const [preview, startPreview, stopPreview] = usePreview();
  const [act, dialog] = useActions({ onDone: known.reload, onDeleted: () => { location.hash = "#/"; } });
  const pipeline = object ? { ...object, since: object.state_since }
    : topology ? { name: topology.pipeline, state: topology.state, since: topology.started_at, base } : null;
  useEffect(() => { document.title = `${pipeline?.name ?? "Pipeline"} – Streamling`; }, [pipeline?.name]);
  if (!pipeline) {
    const failure = isFleet ? known.error : error;
    return failure ? html`<${ErrorBox} error=${failure} title="The pipeline cannot be shown" />` : html`<p class="loading">Loading …</p>`;
  }
  const failure = object?.error ? { message: object.error, remedy: object.remedy } : topology?.error;
  return html`<div class="pipeline"><${Title} pipeline=${pipeline} isFleet=${isFleet} act=${act} status=${status}
      onPreview=${isActive(preview) ? null : () => startPreview(`${base}/preview`)} />
    ${preview && html`<${PreviewCard} preview=${preview} onStop=${stopPreview} />`}
    ${failure && html`<${ErrorBox} error=${failure} title=${failure.node ? `Node ${failure.node} has failed` : "The last error"} />`}
    ${topology ? html`<${Topology} base=${base} topology=${topology} fixed=${fixed} selected=${selected} onSelect=${setSelected} />`
      : html`<${Empty} title="No topology now"><p>${WITHOUT_TOPOLOGY[pipeline.state] ?? error?.message ?? `The pipeline is ${pipeline.state}.`}</p><//>`}
    <${Below} base=${base} topology=${topology} definition=${object?.definition} onSelect=${setSelected} />${dialog}</div>`;
}
