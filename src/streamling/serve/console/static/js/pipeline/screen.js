import { useAccess } from "../access.js";
import { isPaused, useActions } from "../actions.js";
import { get } from "../api.js";
import { AsOf } from "../as_of.js";
import { shownState } from "../fleet/selection.js";
import { clock, dateAndTime, since, until } from "../format.js";
import { useEvents, useNow, usePolling } from "../hooks.js";
import { editLink } from "../router.js";
import { Button, Empty, ErrorBox, html, StateBadge, Tabs, useEffect, useMemo, useRef, useState } from "../ui.js";
import { Charts } from "./charts.js";
import { CodeView } from "./code_view.js";
import { Epochs } from "./epochs.js";
import { Legend, NodesTable, TopologyGraph } from "./graph.js";
import { Logs } from "./logs.js";
import { NodePanel } from "./node_panel.js";
import { placeLink, withPlaces } from "./places.js";
import { isActive, PreviewCard, usePreview } from "./preview.js";
import { ProgressList, Stats } from "./stats.js";

const NOT_RUNNING = {
  paused: "The pipeline is paused and keeps its position. Resume it to let rows flow.",
  pausing: "The pipeline is being paused: it writes what it has read.",
  failed: "The pipeline does not run. Fix the cause, then restart it.",
  finished: "The pipeline has read everything and has finished.",
  restarting: "The last attempt failed. The server starts the pipeline again.",
  starting: "The pipeline is starting.",
  pending: "The pipeline will be started.",
};

// The whole topology once, then what changes every second. Of a pipeline that does not run, what its definition says;
// `version` changes with it.
function useTopology(base, version) {
  const load = async (signal) => ({ ...(await get(`${base}/topology`, signal)), received: Date.now() });
  const { data, error, reload } = usePolling(load, 30, base);
  const [latest, setLatest] = useState(null);
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) reload();
    isFirst.current = false;
  }, [version]);
  useEffect(() => setLatest(null), [data]);
  const status = useEvents(data?.live ? `${base}/topology/events` : null, (name, update) => {
    if (name === "topology") setLatest({ ...update, received: Date.now() });
  });
  useEffect(() => { if (status.state === "ended" && data?.state === "running") reload(); }, [status.state]);
  const topology = latest ?? data;
  const fixed = useMemo(() => Object.fromEntries((data?.nodes ?? []).map((node) => [node.name, node])), [data]);
  const isNew = topology?.nodes.some((node) => !(node.name in fixed));
  useEffect(() => { if (isNew) reload(); }, [isNew]);
  return { topology, fixed, error, status };
}

function Actions({ pipeline, isFleet, act, onPreview }) {
  const mayChange = useAccess().may("operator");
  const paused = isPaused(pipeline);
  const isFixed = pipeline.managed_by === "dir";
  const hasEnded = ["finished", "failed"].includes(pipeline.state);
  if (isFleet && !mayChange) return null;
  return html`<div class="actions">
    ${(isFleet || !hasEnded) && html`<${Button} icon=${paused ? "play" : "paused"} disabled=${isFixed} onClick=${() => act(paused ? "resume" : "pause", pipeline)}>${paused ? "Resume" : "Pause"}<//>`}
    ${(isFleet || !hasEnded) && html`<${Button} icon="save" disabled=${pipeline.state !== "running"} onClick=${() => act("checkpoint", pipeline)}>Checkpoint<//>`}
    ${!isFleet && html`<${Button} icon="play" disabled=${!onPreview} onClick=${onPreview}>Preview<//>`}
    ${isFleet && html`<${Button} icon="retry" onClick=${() => act("restart", pipeline)}>Restart<//>
      ${!isFixed && html`<a class="button" href=${editLink(pipeline)}>Edit</a>`}
      <${Button} icon="trash" kind="danger-quiet" disabled=${isFixed} onClick=${() => act("delete", pipeline)}>Delete<//>`}
  </div>`;
}

function NextAttempt({ at }) {
  useNow(1);
  return html`<span class="tag warn">next attempt at ${clock(at)}, in ${until(at)}</span>`;
}

function Title({ pipeline, isFleet, act, status, onPreview }) {
  const stale = ["live", "ended", "closed"].includes(status.state) ? null : "Reconnecting …";
  return html`<div class="title-row pipeline-title">
    <div>${isFleet && html`<nav class="crumbs" aria-label="Path"><a href="#/">Pipelines</a> / ${pipeline.namespace}</nav>`}
      <h1>${pipeline.name}</h1>
      <p class="title-state"><${StateBadge} state=${shownState(pipeline)} /><span class="muted">for ${since(pipeline.since)}</span>
        ${pipeline.managed_by === "dir" && html`<span class="tag">from a file of the server's folder: change it there</span>`}
        ${pipeline.generation > 0 && html`<span class="tag">generation ${pipeline.generation}</span><span class="tag">size ${pipeline.size}</span>`}
        ${pipeline.restarts > 0 && html`<span class="tag warn">${pipeline.restarts} ${pipeline.restarts === 1 ? "restart" : "restarts"} since ${dateAndTime(pipeline.restarts_since)}</span>`}
        ${pipeline.next_attempt_at && html`<${NextAttempt} at=${pipeline.next_attempt_at} />`}
        ${pipeline.stale_since && html`<span class="tag warn">old since ${dateAndTime(pipeline.stale_since)}: the server cannot read its database</span>`}
        ${stale && html`<span class="tag">${stale}</span>`}</p></div>
    <${Actions} pipeline=${pipeline} isFleet=${isFleet} act=${act} onPreview=${onPreview} />
  </div>`;
}

function Below({ base, topology, definition, tab, at, onTab, onSelect }) {
  const isLive = Boolean(topology?.live);
  const shown = [...(topology?.nodes.length ? [["nodes", "Nodes"]] : []), ...(isLive ? [["epochs", "Epochs"]] : []),
    ["logs", "Logs"], ...(definition ? [["definition", "Pipeline file"]] : [])];
  const wanted = tab ?? (isLive ? "nodes" : "logs");
  const selected = shown.some(([key]) => key === wanted) ? wanted : "logs";
  return html`<section class="card below"><${Tabs} id="below" label="More about the pipeline" tabs=${shown} selected=${selected} onSelect=${onTab} />
    <div class="tab-panel" role="tabpanel" id="below-panel" aria-labelledby="below-tab-${selected}">
      ${selected === "nodes" && html`<${NodesTable} nodes=${topology.nodes} onSelect=${onSelect} />`}
      ${selected === "epochs" && html`<${Epochs} base=${base} />`}
      ${selected === "logs" && html`<${Logs} base=${base} />`}
      ${selected === "definition" && html`<${CodeView} text=${definition} language="yaml" label="Pipeline file" at=${at} />`}
    </div></section>`;
}

// When the numbers were taken: the clock of this browser while they arrive, otherwise that of the server.
const takenAt = (topology) => (topology.live ? topology.received : Date.parse(topology.measured_at));

function Topology({ base, topology, fixed, selected, linkPlaces, onSelect }) {
  const nodes = topology.nodes.map((node) => ({ description: fixed[node.name]?.description, ...node }));
  const node = nodes.find((each) => each.name === selected);
  return html`<${AsOf} at=${takenAt(topology)} /><${Stats} topology=${topology} /><${ProgressList} nodes=${nodes} />
    <div class="workspace ${node ? "with-panel" : ""}">
      <div class="drawings"><section class="card graph-card" aria-label="Topology"><div class="card-head"><h2>Topology</h2>${topology.live && html`<${Legend} />`}</div>
        ${!topology.live && html`<p class="card-note">${NOT_RUNNING[topology.state] ?? `The pipeline is ${topology.state}.`}</p>`}
        ${nodes.length ? html`<${TopologyGraph} nodes=${nodes} edges=${topology.edges} selected=${selected} onSelect=${onSelect} />`
          : html`<${Empty} title="No nodes"><p>The pipeline file cannot be read as far as its first node.</p><//>`}</section>
        <${Charts} base=${base} live=${topology.live ? topology.history : null} /></div>
      ${node && html`<${NodePanel} base=${base} node=${node} fixed=${fixed[node.name]} isLive=${topology.live} linkPlaces=${linkPlaces}
        upstreams=${topology.edges.filter((edge) => edge.to === node.name).map((edge) => edge.from)} onClose=${() => {
        onSelect(null);
        document.querySelector(`[data-node="${CSS.escape(node.name)}"]`)?.focus();
      }} />`}
    </div>`;
}

// The error of a pipeline: its node opens the details, its place in the file the editor.
function Failure({ failure, nodes, linkPlaces, onSelect }) {
  const node = nodes.find(({ name }) => name === failure.node);
  const hasPlace = /\.ya?ml:\d+/.test(failure.message);
  return html`<${ErrorBox} error=${failure} text=${withPlaces(failure.message, linkPlaces)}
    title=${html`<span>${node ? html`Node <button type="button" class="link" onClick=${() => onSelect(node.name)}>${node.name}</button> has failed` : "The last error"}${
      failure.at && html`<span class="error-time">, ${since(failure.at)} ago (${clock(failure.at)})</span>`}</span>`}>
    ${node?.location && linkPlaces && !hasPlace && html`<p>Defined in ${withPlaces(node.location, linkPlaces)}</p>`}<//>`;
}

export function PipelineScreen({ base, pipeline: key }) {
  const isFleet = Boolean(key);
  const access = useAccess();
  const known = usePolling((signal) => get(base, signal), 2, isFleet ? base : null);
  const object = known.data;
  const { topology, fixed, error, status } = useTopology(base, object ? `${object.state} ${object.generation}` : "");
  const [selected, setSelected] = useState(null);
  const [below, setBelow] = useState({ tab: null, at: null });
  const [preview, startPreview, stopPreview] = usePreview();
  const [act, dialog] = useActions({ onDone: known.reload, onDeleted: () => { location.hash = "#/"; } });
  const pipeline = object ? { ...object, since: object.state_since }
    : topology && !isFleet ? { name: topology.pipeline, state: topology.state, since: topology.started_at, base } : null;
  useEffect(() => { document.title = `${pipeline?.name ?? "Pipeline"} – Streamling`; }, [pipeline?.name]);
  if (!pipeline) {
    const failure = isFleet ? known.error : error;
    return failure ? html`<${ErrorBox} error=${failure} title="The pipeline cannot be shown" />` : html`<p class="loading">Loading …</p>`;
  }
  const failure = isFleet ? object.last_error && { ...object.last_error, node: object.last_error.node || topology?.error?.node } : topology?.error;
  const showPlace = (at) => {
    setBelow({ tab: "definition", at });
    document.querySelector(".below").scrollIntoView();
  };
  const mayEdit = isFleet && object.managed_by !== "dir" && access.may("operator");
  const linkPlaces = isFleet ? placeLink(mayEdit ? editLink(object) : null, showPlace) : null;
  return html`<div class="pipeline"><${Title} pipeline=${pipeline} isFleet=${isFleet} act=${act} status=${status}
      onPreview=${isActive(preview) ? null : () => startPreview(`${base}/preview`)} />
    ${preview && html`<${PreviewCard} preview=${preview} onStop=${stopPreview} />`}
    ${failure && html`<${Failure} failure=${failure} nodes=${topology?.nodes ?? []} linkPlaces=${linkPlaces} onSelect=${setSelected} />`}
    ${topology ? html`<${Topology} base=${base} topology=${topology} fixed=${fixed} selected=${selected} linkPlaces=${linkPlaces} onSelect=${setSelected} />`
      : error ? html`<${ErrorBox} error=${error} title="The topology cannot be shown" />` : html`<p class="loading">Loading …</p>`}
    <${Below} base=${base} topology=${topology} definition=${object?.definition} tab=${below.tab} at=${below.at}
      onTab=${(tab) => setBelow({ tab, at: null })} onSelect=${setSelected} />${dialog}</div>`;
}
